package topology

import (
	"fmt"
	"slices"
)

// Own is a Service as it is to be kept where others are not, as the snapshot that was seen
// last has it: with what these have of it. Whoever looks at what is kept would else find it
// nobody's, and this Service's. Where no datapath serves them, Options.Owners asks for that of
// node ports and addresses.
func (v *Viewer) Own(s *Service) *Service {
	var others []Owned
	add := func(f Frontend) {
		switch owner, clusterIP := v.claims.whose(s, f); {
		case owner == s.Key, owner == ObjectKey{}:
		case clusterIP:
			others = append(others, Owned{Addr: f.Addr, Owner: owner})
		default:
			others = append(others, Owned{f.Addr, f.Port, f.Protocol, owner})
		}
	}
	for _, ip := range s.ClusterIPs {
		add(Frontend{Addr: ip})
	}
	var most *int
	if p := v.claims.portions[s.Key]; p != nil {
		n := 0
		for _, d := range s.outside() {
			if n++; n > p.granted {
				break
			}
			add(d.Frontend)
		}
		if p.granted < p.wants {
			granted := p.granted
			most = &granted
		}
	}
	if len(others) == 0 && most == nil {
		return s
	}
	slices.SortFunc(others, func(a, b Owned) int { return a.frontend().Compare(b.frontend()) })
	own := *s
	own.Others, own.Portion = slices.Compact(others), most
	return &own
}

// frontend is what is owned; of a ClusterIP the port is 0.
func (o Owned) frontend() Frontend { return Frontend{o.Addr, o.Port, o.Protocol} }

// other is what of a frontend is kept as another Service's.
func (s *Service) other(f Frontend) (o Owned, is bool) {
	if len(s.Others) == 0 {
		return Owned{}, false
	}
	for _, f := range [...]Frontend{{Addr: f.Addr}, f} {
		if i, is := slices.BinarySearchFunc(s.Others, f, func(o Owned, f Frontend) int { return o.frontend().Compare(f) }); is {
			return s.Others[i], true
		}
	}
	return Owned{}, false
}

// whose is who has a frontend that a Service asks for, and whether as a ClusterIP, which is
// asked for as one without a port. Nobody has what is asked for beyond a portion.
func (c *claims) whose(s *Service, f Frontend) (owner ObjectKey, clusterIP bool) {
	if o, is := s.other(f); is {
		return o.Owner, o.Port == 0
	}
	if owner, is := c.clusterIP(f.Addr); is {
		return owner, true
	}
	return c.outside(f), false
}

// holder names who has, instead of a Service, what that asks for. Who is far behind others is
// not told, for it would change with each of them, and all who ask be evaluated again.
func (c *claims) holder(s *Service, f Frontend, owner ObjectKey) string {
	_, kept := s.other(f)
	if kept || f.Port == 0 && c.clusterIPs.tells(f.Addr, s.Key) || f.Port != 0 && c.doors.tells(f, s.Key) {
		return "service " + owner.String()
	}
	return fmt.Sprintf("one of %d or more services that come before this one (gridmesh view has whose)", c.doors.named)
}
