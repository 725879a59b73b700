package flows

import (
	"encoding/json"
	"slices"
)

// What Kubernetes documents of Services, and topologyKeys' KEP-536:
//
//   - Services: virtual IPs and service proxies
//     (kubernetes.io/docs/reference/networking/virtual-ips), on policies, source
//     addresses, affinity, and endpoints that terminate (KEP-1669);
//   - source addresses: kubernetes.io/docs/tutorials/services/source-ip;
//   - internalTrafficPolicy: KEP-2086; load balancers' ipMode: KEP-1860;
//   - "so you want to write a service proxy" (kubernetes-sigs/kpng), on what is
//     refused and what is dropped, and on external addresses dialled from inside;
//   - where node ports are served: kube-proxy's --nodeport-addresses, primary.

// expect is what comes of a flow at a node whose engine does all of that.
func expect(f flow) outcome { return expectOf(f, nearest) }

// expectOf is expect where choose says which endpoints of which tier answer.
func expectOf(f flow, choose func(tiers [][]endpoint) []who) outcome {
	switch {
	case f.gone && f.to == clusterIP:
		return just(dropped)
	case f.gone:
		return just(refused)
	}
	switch f.to {
	case otherPort, portElsewhere, portLocalhost:
		return just(refused) // nobody listens there
	case nobodysIP:
		return just(dropped)
	case vipOfProxy:
		return by([]who{beyond}, f.unlessHost(own)) // the load balancer wants to see it
	}
	if f.to == vip && f.ranges && f.from != outside {
		return just(dropped)
	}
	list, local := ends(f.ends), f.narrowed()
	candidates := list
	if local {
		candidates = slices.DeleteFunc(slices.Clone(list), func(e endpoint) bool { return e.who != here })
	}
	answering := choose(f.tiers(candidates))
	switch {
	case len(answering) > 0:
		o := by(answering, f.seenAs)
		o.sticky = f.affinity && len(answering) > 1
		return o
	case local && len(usable(list)) > 0:
		return just(dropped) // others serve it, and a load balancer may not know yet
	}
	return just(refused)
}

// narrowed reports whether only endpoints of this node may answer. Of externalTrafficPolicy
// that is so for who comes from elsewhere: this node and its pods are inside, and
// reach everybody.
func (f flow) narrowed() bool {
	if f.to == clusterIP {
		return f.internalLocal
	}
	return f.externalLocal && !f.from.ofNode()
}

// usable are those that are ready, or where none is those that serve while they
// terminate.
func usable(list []endpoint) (names []who) {
	for _, c := range []condition{ready, ending} {
		for _, e := range list {
			if e.condition == c {
				names = append(names, e.who)
			}
		}
		if len(names) > 0 {
			return names
		}
	}
	return nil
}

// tiers are those of each key in turn: of the unit, or, with "*" in last place, all
// that are left. Without keys there is one tier.
func (s *service) tiers(list []endpoint) (tiers [][]endpoint) {
	if s.keys == "" {
		return [][]endpoint{list}
	}
	var keys []string
	if err := json.Unmarshal([]byte(s.keys), &keys); err != nil {
		panic(err)
	}
	for _, key := range keys {
		var tier, rest []endpoint
		for _, e := range list {
			if key == "*" || e.who == here || e.who == mate && !s.moved {
				tier = append(tier, e)
			} else {
				rest = append(rest, e)
			}
		}
		tiers, list = append(tiers, tier), rest
	}
	return tiers
}

// nearest are the usable ones of the first tier that has any.
func nearest(tiers [][]endpoint) []who {
	for _, t := range tiers {
		if found := usable(t); len(found) > 0 {
			return found
		}
	}
	return nil
}

// seenAs is as whom an endpoint sees the client. It has to answer by the way that the
// question came: so the node stands for who would be answered past it, and for a
// pod that reaches itself.
func (f flow) seenAs(e who) source {
	hairpin := f.from == itself && e == here
	switch {
	case f.from == host, hairpin:
		return node
	case f.to == clusterIP && f.from.ofNode():
		return own
	case f.to != clusterIP && f.externalLocal:
		return own // the policy's very purpose
	}
	return node
}

// unlessHost is a source that the node itself cannot differ from.
func (f flow) unlessHost(s source) func(who) source {
	return func(who) source {
		if f.from == host {
			return node
		}
		return s
	}
}
