package firewall

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
)

// lookup is whether what was loaded is in a set; in a map of verdicts, those that it may
// meet there are what the rule decides.
func (r *reading) lookup(e nft.Expression) certain {
	decides := e.Number(unix.NFTA_LOOKUP_DREG) == unix.NFT_REG_VERDICT && len(e.Bytes(unix.NFTA_LOOKUP_DREG)) > 0
	set, first := e.Text(unix.NFTA_LOOKUP_SET), e.Number(unix.NFTA_LOOKUP_SREG)
	list, err := r.elements(set)
	what := r.regs.key(first, list)
	clear(r.regs) // what was put together in them is no longer
	if err != nil || !anonymous(set) && (what.what == unknown || what.what == source4 || what.what == source6) {
		if decides {
			r.decides(accepts) // it may
		}
		return maybe
	}
	slices.SortFunc(list, func(a, b nft.Element) int { return bytes.Compare(a.Key, b.Key) })
	ranges := slices.ContainsFunc(list, func(e nft.Element) bool { return e.IntervalEnd })
	in := never
	for i, element := range list {
		c := r.meets(what, list[i:], ranges)
		if in = max(in, c); c == never || !decides {
			continue
		}
		v := verdict{code: accepts}
		if data := element.VerdictData; data != nil {
			v = verdict{int32(data.Kind), data.Chain}
		}
		r.may = append(r.may, v)
	}
	switch inverted := e.Number(unix.NFTA_LOOKUP_FLAGS)&unix.NFT_LOOKUP_F_INV != 0; {
	case inverted && (what.what == port || what.what == client):
		return maybe
	case inverted:
		return always - in
	}
	return in
}

// key is what is looked for in a set. Of several things that are put together one may
// be a port; of the others it is not known whether they are there.
func (r registers) key(first uint32, list []nft.Element) register {
	length := 0
	for _, e := range list {
		length = max(length, len(e.Key))
	}
	together := false
	for i := 1; 4*i < length; i++ {
		what, loaded := r[word(first)+uint32(i)]
		if together = together || loaded; what.what == port {
			return what
		}
	}
	if what := r.at(first); what.what == port || !together {
		return what
	}
	return register{}
}

// meets is whether what was loaded is the first element of a list, or within what begins
// there and ends before the next.
func (w *walk) meets(r register, list []nft.Element, ranges bool) certain {
	e := list[0]
	switch same := bytes.Equal(e.Key, r.value); {
	case e.IntervalEnd:
		return never
	case e.CatchAll, len(e.Key) == 0:
		return maybe
	case r.what == client && ranges, r.what == port && len(e.Key) == 2 && allPorts(portOf(e.Key), 0xffff) && !endsBefore(list, []byte{0xff, 0xff}):
		return maybe
	case r.what == port, r.what == client, r.what == other && bytes.HasPrefix(e.Key, r.value):
		return never
	case r.what == known && same && e.Timeout == 0 && (!e.Odd || e.VerdictData != nil):
		return always
	case r.what == known && !same && len(e.Key) == len(r.value) && !ranges:
		return never
	case (r.what == source4 || r.what == source6) && r.value == nil:
		return w.fromRange(r.what == source4, list, ranges)
	}
	return maybe
}

// anonymous reports whether a set is part of a rule, and so has for ever what it has: it
// is named by the kernel. Into another whatever it has not may come, by packets too.
func anonymous(set string) bool { return strings.HasPrefix(set, "__") }

// fromRange is meets for the source of any pod.
func (w *walk) fromRange(is4 bool, list []nft.Element, ranges bool) certain {
	first, ok := netip.AddrFromSlice(list[0].Key)
	if !ok || first.Is4() != is4 || len(w.Sources) == 0 {
		return maybe
	}
	ranges = ranges || first.IsUnspecified() // all of them
	for _, p := range w.Sources {
		if p.Addr().Is4() == is4 && (p.Contains(first) || ranges && first.Less(p.Addr()) && !endsBefore(list, p.Masked().Addr().AsSlice())) {
			return maybe
		}
	}
	return never
}

// endsBefore reports whether what begins a list ends before a key, or there.
func endsBefore(list []nft.Element, key []byte) bool {
	for _, e := range list[1:] {
		if !bytes.Equal(e.Key, list[0].Key) {
			return bytes.Compare(e.Key, key) <= 0
		}
	}
	return false
}
