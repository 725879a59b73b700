package nft

import (
	"errors"
	"reflect"
	"testing"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
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

// A list that was torn is read again, and one that stays so is not handed on as whole.
func TestATornMap(t *testing.T) {
	item := &nftables.SetElement{Key: []byte{1, 2, 3, 4}}
	for torn, want := range map[int]error{0: nil, 1: nil, 4: nil, 5: dump.ErrTorn} {
		n := 0
		list, err := readMap(func(take func(*nftables.SetElement) error) error {
			if n++; n <= torn {
				return errors.Join(take(item), take(item), dump.ErrTorn)
			}
			return take(item)
		})
		if told := map[error]int{nil: 1, dump.ErrTorn: 2}[want]; len(list) != told || !errors.Is(err, want) {
			t.Errorf("torn %d times: %v, %v", torn, list, err)
		}
	}
	if _, err := readMap(func(func(*nftables.SetElement) error) error { return unix.ENOENT }); !errors.Is(err, unix.ENOENT) {
		t.Errorf("cannot be read: %v", err)
	}
}

// What is cut off ends what is told of it, and nothing else.
func FuzzParseElements(f *testing.F) {
	f.Add(nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS, nested(1, nested(unix.NFTA_SET_ELEM_KEY, Attribute(unix.NFTA_DATA_VALUE, []byte{1, 2, 3, 4})))))
	f.Add(nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS, nested(1, nested(unix.NFTA_SET_ELEM_DATA, nested(unix.NFTA_DATA_VERDICT, Attribute(unix.NFTA_VERDICT_CHAIN, []byte("x")))))))
	f.Fuzz(func(t *testing.T, b []byte) {
		if list := parseElements(b); len(list)*unix.NLA_HDRLEN > len(b) {
			t.Errorf("%d elements in %d bytes", len(list), len(b))
		}
	})
}
