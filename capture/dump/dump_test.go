package dump

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

func message(kind nl.HeaderType, flags nl.HeaderFlags, body ...byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
	b = binary.NativeEndian.AppendUint16(b, uint16(kind))
	b = binary.NativeEndian.AppendUint16(b, uint16(flags))
	return append(append(b, make([]byte, 8)...), body...)
}

// What is torn may be said by the end alone.
func TestTheEndSaysThatItIsTorn(t *testing.T) {
	item, end := message(16, nl.Multi, 1, 2, 3, 4), message(nl.Done, nl.Multi|nl.DumpInterrupted, 0, 0, 0, 0)
	list, torn, done, err := take(item, false)
	if len(list) != 1 || torn || done || err != nil {
		t.Errorf("the item: %v, torn %v, done %v, %v", list, torn, done, err)
	}
	if list, torn, done, err = take(end, torn); len(list) != 0 || !torn || !done || err != nil {
		t.Errorf("the end: %v, torn %v, done %v, %v", list, torn, done, err)
	}
}

// A torn list is read again, and what a library calls it is the same.
func TestAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		errs []error
		want error
		read int
	}{
		"whole":             {[]error{nil}, nil, 1},
		"torn once":         {[]error{ErrTorn, nil}, nil, 2},
		"as a library":      {[]error{unix.EINTR, fmt.Errorf("list: %w", unix.EINTR), nil}, nil, 3},
		"another error":     {[]error{ErrTorn, unix.EPERM}, unix.EPERM, 2},
		"torn all the time": {[]error{ErrTorn, unix.EINTR, ErrTorn, ErrTorn, unix.EINTR}, ErrTorn, 5},
	} {
		n := 0
		list, err := Again(func() (int, error) { n++; return n, tc.errs[n-1] })
		if !errors.Is(err, tc.want) || n != tc.read || list != n {
			t.Errorf("%s: read %d times, list %d, %v", name, n, list, err)
		}
	}
}

// A piece that is cut off ends with an error, not with what it has so far.
func FuzzTake(f *testing.F) {
	f.Add(message(nl.Done, nl.Multi, 0, 0, 0, 0))
	f.Add(message(nl.Error, 0, 0xfe, 0xff, 0xff, 0xff))
	f.Add(append(message(16, nl.Multi|nl.DumpInterrupted, 1, 2, 3, 4), message(nl.Done, nl.Multi)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, _, _, err := take(b, false)
		if err != nil && list != nil {
			t.Error("failed, and has a list")
		}
		if len(list)*unix.NLMSG_HDRLEN > len(b) {
			t.Errorf("%d messages in %d bytes", len(list), len(b))
		}
	})
}
