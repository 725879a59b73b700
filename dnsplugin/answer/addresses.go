package answer

import (
	"net/netip"
	"slices"
)

// addresses are A or AAAA records in the making. One Service may have a hundred
// thousand pods: they are full when no message has room for more.
type addresses struct {
	qtype Type // A or AAAA
	list  []netip.Addr
	full  bool
}

// add adds an address, if it is of the family that is asked for.
func (s *addresses) add(ip netip.Addr) {
	if s.full || ip.Is4() != (s.qtype == A) {
		return
	}
	// Pods of one name may have one address: it is counted when that pays.
	if s.list = append(s.list, ip); len(s.list) > 2*s.most() {
		s.settle()
	}
}

// most is how many a message has room for at most.
func (s *addresses) most() int {
	if s.qtype == A {
		return largest / (owned + 4)
	}
	return largest / (owned + 16)
}

// settle returns each once, sorted, as many as there is room for.
func (s *addresses) settle() []netip.Addr {
	if len(s.list) > 1 {
		slices.SortFunc(s.list, netip.Addr.Compare)
		s.list = slices.Compact(s.list)
	}
	if most := s.most(); len(s.list) > most {
		s.list, s.full = s.list[:most], true
	}
	return s.list
}
