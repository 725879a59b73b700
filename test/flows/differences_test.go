package flows

import "strings"

// difference is where engines do something else than expected, with the reason.
type difference struct {
	engines []string
	reason  string
	of      func(engine string, f flow) bool
	gives   func(f flow, want outcome) outcome
}

// differences are all that there are: one that is not listed fails the test, and so
// does one that is listed and is none. Of those of an engine the first that applies
// counts.
var differences = []difference{
	{
		engines: []string{envoy},
		reason:  "nothing serves node ports",
		of:      func(_ string, f flow) bool { return f.to == nodePort },
		gives:   always(refused),
	},
	{
		engines: []string{envoy},
		reason:  "nothing serves external and load balancers' addresses: what is dialled there is led on",
		of:      func(_ string, f flow) bool { return f.to == externalIP || f.to == vip },
		gives:   func(f flow, _ outcome) outcome { return by([]who{beyond}, f.unlessHost(own)) },
	},
	{
		engines: []string{envoy},
		reason:  "the guard's ICMP error never reaches the host's own socket: the kernel has no address of IPv4 to send it from",
		of:      hostIsNotTold,
		gives:   always(dropped),
	},
	{
		engines: []string{kernel, auto, envoy},
		reason:  "an address that no Service has is refused, and nobody waits for a Service that was deleted",
		of:      func(_ string, f flow) bool { return f.to == nobodysIP || f.gone },
		gives:   always(refused),
	},
	{
		engines: []string{envoy},
		reason:  "UDP of Services without topologyKeys is refused",
		of:      func(_ string, f flow) bool { return f.to == clusterIP && f.udp && f.keys == "" && expect(f).answered() },
		gives:   always(refused),
	},
	{
		engines: []string{envoy},
		reason:  "Envoy dials with the node's address for UDP, and keeps no client at an endpoint",
		of:      func(_ string, f flow) bool { return f.to == clusterIP && (f.udp || f.affinity) },
		gives: func(f flow, want outcome) outcome {
			o := outcome{all: want.all}
			if f.udp {
				o.all = nil
				for _, a := range want.all {
					o.all = append(o.all, strings.Replace(a, " "+string(own), " "+string(node), 1))
				}
			}
			return o
		},
	},
	{
		engines: []string{kernel, auto},
		reason:  "the kernel cannot tell who answers: it prefers ready endpoints of a later key to those of an earlier one that all terminate",
		of:      func(engine string, f flow) bool { return f.keys != "" && !takesEnvoy(engine, f) },
		gives:   func(f flow, _ outcome) outcome { return expectOf(f, readyFirst) },
	},
	{
		engines: []string{kernel, auto},
		reason:  "externalTrafficPolicy Local drops only where the keys let this node reach somebody: a closed Service of another unit is refused",
		of: func(_ string, f flow) bool {
			return f.to != clusterIP && f.keys != "" && expect(f).String() == dropped && f.narrowed() && (!f.ranges || f.to != vip)
		},
		gives: func(f flow, want outcome) outcome {
			if nearest(f.tiers(ends(f.ends))) == nil {
				return just(refused)
			}
			return want
		},
	},
}

func always(what string) func(flow, outcome) outcome {
	return func(flow, outcome) outcome { return just(what) }
}

// takesEnvoy reports whether Envoy serves a flow over TCP that an engine serves.
func takesEnvoy(engine string, f flow) bool {
	return f.to == clusterIP && !f.udp && (engine == envoy || engine == auto && f.keys != "" && !f.affinity)
}

// hostIsNotTold reports whether the guard alone refuses what the host dials by UDP.
func hostIsNotTold(_ string, f flow) bool {
	inRange := f.to == clusterIP && f.keys == "" && expect(f).answered() || f.to == nobodysIP
	return inRange && f.from == host && f.udp && !f.ipv6
}

// readyFirst are the ready ones of the first tier that has any, and those that
// terminate only where none has.
func readyFirst(tiers [][]endpoint) []who {
	for _, c := range []condition{ready, ending} {
		for _, t := range tiers {
			var names []who
			for _, e := range t {
				if e.condition == c {
					names = append(names, e.who)
				}
			}
			if len(names) > 0 {
				return names
			}
		}
	}
	return nil
}
