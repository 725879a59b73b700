package nft

import (
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

func nested(kind uint16, list ...[]byte) []byte {
	var all []byte
	for _, b := range list {
		all = append(all, b...)
	}
	return Attribute(kind|unix.NLA_F_NESTED, all)
}

func TestParseElements(t *testing.T) {
	item := nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS,
		nested(1, nested(unix.NFTA_SET_ELEM_KEY, Attribute(unix.NFTA_DATA_VALUE, []byte{1, 2, 3, 4})), nested(unix.NFTA_SET_ELEM_DATA, Attribute(unix.NFTA_DATA_VALUE, []byte{5}))),
		nested(1, Attribute(unix.NFTA_SET_ELEM_FLAGS, []byte{0, 0, 0, 2})))
	want := []nftables.SetElement{{Key: []byte{1, 2, 3, 4}, Val: []byte{5}}, {}}
	if got := parseElements(item); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A piece that is cut off ends with an error, not with what it has so far.
func FuzzMessages(f *testing.F) {
	header := func(kind, flags uint16, body ...byte) []byte {
		b := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
		b = binary.NativeEndian.AppendUint16(b, kind)
		b = binary.NativeEndian.AppendUint16(b, flags)
		return append(append(b, make([]byte, 8)...), body...)
	}
	f.Add(header(unix.NLMSG_DONE, 0, 0, 0, 0, 0))
	f.Add(header(unix.NLMSG_ERROR, 0, 0xfe, 0xff, 0xff, 0xff))
	f.Add(header(10<<8, unix.NLM_F_DUMP_INTR))
	f.Add(append(header(10<<8, 0, 1, 0, 0, 0, 9, 0, 3, 0, 1), header(unix.NLMSG_DONE, 0)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		taken := 0
		done, _, err := messages(b, func(item []byte) error {
			taken++
			parseElements(item)
			return nil
		})
		if done && err != nil {
			t.Error("done, and failed")
		}
		if taken*(unix.NLMSG_HDRLEN+headerLen) > len(b) {
			t.Errorf("%d items in %d bytes", taken, len(b))
		}
	})
}
