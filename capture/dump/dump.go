package dump

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// ErrTorn says that the list changed while it was told, each time: something
// may be missing, or be there twice.
var ErrTorn = errors.New("changed while it was read")

// tries are how often a list is read before it is taken as torn.
const tries = 5

// piece is what the kernel is offered at a time, of which it uses 32 KiB; for each
// piece of a set it goes through all of the set that it told before. The pages that
// libraries offer make that four times the work. A single message is smaller.
const piece = 64 << 10

// Again reads until a list is whole, a few times, and returns the last one
// beside ErrTorn. To vishvananda/netlink a torn list is EINTR.
func Again[T any](read func() (T, error)) (list T, err error) {
	for range tries {
		list, err = read()
		if !errors.Is(err, ErrTorn) && !errors.Is(err, unix.EINTR) {
			return list, err
		}
	}
	return list, fmt.Errorf("%w, %d times: others write all the time", ErrTorn, tries)
}

// Ask sends one request and returns the answers to it. After an error that is
// not ErrTorn more may wait in the socket.
func Ask(conn *nl.Conn, m nl.Message) ([]nl.Message, error) {
	if m.Header.Flags&nl.Dump != nl.Dump {
		return conn.Execute(m)
	}
	return Again(func() (list []nl.Message, err error) {
		err = Each(conn, m, func(item nl.Message) error {
			item.Data = slices.Clone(item.Data)
			list = append(list, item)
			return nil
		})
		if err != nil && !errors.Is(err, ErrTorn) {
			return nil, err
		}
		return list, err
	})
}

// Each sends one request for a list and hands each item on as it comes, whose data is
// its own until do returns; of a torn list too, at whose end it returns ErrTorn. After
// another error more may wait in the socket. nl.Conn leaves out the last message, which
// may be the only one that says that a list is torn.
func Each(conn *nl.Conn, m nl.Message, do func(item nl.Message) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	request, err := conn.Send(m)
	if err != nil {
		return err
	}
	buf := make([]byte, piece)
	for torn, done := false, false; !done; {
		n, err := receive(raw, buf)
		if err != nil {
			return err
		}
		var items []nl.Message
		if items, torn, done, err = take(buf[:n], torn); err != nil {
			return err
		}
		if err := nl.Validate(request, items); err != nil {
			return err
		}
		for _, item := range items {
			if err := do(item); err != nil {
				return err
			}
		}
		if done && torn {
			return ErrTorn
		}
	}
	return nil
}

func receive(raw syscall.RawConn, buf []byte) (n int, err error) {
	failed := raw.Read(func(fd uintptr) bool {
		for {
			n, _, err = unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT|unix.MSG_TRUNC)
			if !errors.Is(err, unix.EINTR) {
				return !errors.Is(err, unix.EAGAIN)
			}
		}
	})
	switch {
	case failed != nil:
		return 0, failed
	case err != nil:
		return 0, os.NewSyscallError("recvfrom", err)
	case n > len(buf):
		return 0, fmt.Errorf("netlink: a message of %d bytes", n)
	}
	return n, nil
}

// take takes the messages of one piece, and whether they are the last.
func take(b []byte, wasTorn bool) (list []nl.Message, torn, done bool, err error) {
	torn = wasTorn
	msgs, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return nil, torn, false, fmt.Errorf("netlink: %w", err)
	}
	for _, m := range msgs {
		flags, kind := nl.HeaderFlags(m.Header.Flags), nl.HeaderType(m.Header.Type)
		torn = torn || flags&nl.DumpInterrupted != 0
		done = done || flags&nl.Multi == 0 || kind == nl.Done
		if kind != nl.Done && kind != nl.Error {
			list = append(list, nl.Message{
				Header: nl.Header{Length: m.Header.Len, Type: kind, Flags: flags, Sequence: m.Header.Seq, PID: m.Header.Pid},
				Data:   m.Data,
			})
			continue
		}
		done = true
		if len(m.Data) >= 4 {
			if code := int32(binary.NativeEndian.Uint32(m.Data)); code < 0 {
				return nil, torn, true, os.NewSyscallError("netlink dump", unix.Errno(-code))
			}
		}
	}
	return list, torn, done, nil
}
