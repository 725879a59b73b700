package node

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/preload"
	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// quarrel is a tenant's Service, web, which is near and kept, and an elder one that is neither
// and has some of what web asks for.
type quarrel struct {
	ports       []uint16
	ips         []string // web's besides 10.96.0.10
	web, far    topology.Exposure
	farIPs      []string
	nodePort    uint16 // of both
	before      topology.Datapath
	has, hasNot []string // of web, after a boot
}

func addrs(texts ...string) (list []netip.Addr) {
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

func (q quarrel) objects() *nodetest.Objects {
	o := webOnly()
	o.Plain("far", "10.96.0.50", map[string]string{"b-1": "10.244.9.9"})
	set := func(name string, created int64, ports []uint16, ips []string, x topology.Exposure) {
		entry, _ := o.Snapshot().Services.Get(topology.ObjectKey{Namespace: "default", Name: name})
		s := *entry.Service
		s.Created, s.Exposure, s.Ports = created, &x, nil
		s.ClusterIPs = append(slices.Clone(s.ClusterIPs), addrs(ips...)...)
		slice := &topology.Slice{Key: topology.ObjectKey{Namespace: "default", Name: name + "-6"}, Service: name, IPv6: true, Endpoints: []topology.Endpoint{{Addr: netip.MustParseAddr("fd00:244::5"), Node: "a-2", Ready: true}}}
		four := *entry.Slices[0]
		four.Ports = nil
		for _, p := range ports {
			s.Ports = append(s.Ports, topology.ServicePort{Name: fmt.Sprint(p), Protocol: topology.TCP, Port: p})
			to := topology.SlicePort{Name: fmt.Sprint(p), Protocol: topology.TCP, Port: 8080}
			four.Ports, slice.Ports = append(four.Ports, to), append(slice.Ports, to)
		}
		s.Ports[0].NodePort = q.nodePort
		o.Builder().SetService(&s)
		o.Builder().SetSlice(&four)
		if name == "web" && len(ips) > 0 {
			o.Builder().SetSlice(slice)
		}
	}
	set("far", 1, []uint16{443}, q.farIPs, q.far)
	set("web", 2, q.ports, q.ips, q.web)
	return o
}

// ranges are so many that no two of them are one.
func ranges(n int) (list []netip.Prefix) {
	for i := range n {
		list = append(list, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i / 128), byte(i % 128 * 2), 0}), 24))
	}
	return list
}

// What a Service has it has after a boot without a cloud, and what another one has, which is
// far and not kept, it has not then either.
func TestABootWithoutACloudGivesEachWhatItHad(t *testing.T) {
	const own = "10.96.0.10:80/tcp"
	auto := topology.DatapathAuto
	for name, q := range map[string]quarrel{
		"another's ClusterIP": {
			ports: []uint16{80, 443}, before: auto, web: topology.Exposure{ExternalIPs: addrs("10.96.0.50", "203.0.113.6")},
			has: []string{own, "203.0.113.6:80/tcp", "203.0.113.6:443/tcp"}, hasNot: []string{"10.96.0.50:80/tcp", "10.96.0.50:443/tcp"},
		},
		"one port of an address": {
			ports: []uint16{80, 443}, before: auto, web: topology.Exposure{ExternalIPs: addrs("203.0.113.9")}, far: topology.Exposure{ExternalIPs: addrs("203.0.113.9")},
			has: []string{own, "203.0.113.9:80/tcp"}, hasNot: []string{"203.0.113.9:443/tcp"},
		},
		"no room for the ranges of one of ten": {
			ports: []uint16{80, 443}, before: auto, web: topology.Exposure{LoadBalancers: addrs("203.0.113.1", "203.0.113.2", "203.0.113.3", "203.0.113.4", "203.0.113.5"), Sources: ranges(819)},
			has: []string{own, "203.0.113.1:80/tcp", "203.0.113.5:80/tcp", "203.0.113.1:443/tcp", "203.0.113.4:443/tcp"},
		},
		"a ClusterIP of the other family": {
			ports: []uint16{80}, before: auto, ips: []string{"fd00::7"}, farIPs: []string{"fd00::7"},
			has: []string{own}, hasNot: []string{"[fd00::7]:80/tcp"},
		},
		"a node port": {
			ports: []uint16{80}, before: auto, nodePort: 30080,
			has: []string{own}, hasNot: []string{"0.0.0.0:30080/tcp"},
		},
		"with another datapath": {
			ports: []uint16{80, 443}, before: topology.DatapathNone, web: topology.Exposure{ExternalIPs: addrs("203.0.113.9"), LoadBalancers: addrs("203.0.113.8")}, far: topology.Exposure{ExternalIPs: addrs("203.0.113.9")},
			has: []string{own, "203.0.113.8:80/tcp", "203.0.113.8:443/tcp", "203.0.113.9:80/tcp"}, hasNot: []string{"203.0.113.9:443/tcp"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				if q.before != topology.DatapathNone {
					r.withKernelPath(q.before)
				}
				r.mustStart(t)
				r.publish(q.objects())
				after(statedir.SaveInterval)
				r.stop()
				if n := r.saved(t).Snapshot.Services.Len(); n != 1 {
					t.Fatalf("%d Services are kept, want the tenant's alone", n)
				}
				r.kernel.Flush()
				r.again()
				r.withKernelPath(auto)
				r.mustStart(t)
				rules, _ := r.kernel.InForce()
				var got []string
				for _, f := range slices.Concat(rules.Serve, rules.Kernel) {
					got = append(got, f.String())
				}
				for _, f := range q.has {
					if !slices.Contains(got, f) {
						t.Errorf("%s is lost: %v are served", f, got)
					}
				}
				for _, f := range q.hasNot {
					if slices.Contains(got, f) {
						t.Errorf("%s is another's, and is served: %v", f, got)
					}
				}
			})
		})
	}
}

// The last good state lacks Services that are used, or are dialled and were near. What Envoy is
// to hold of them is known all the same when the cloud is back, for as long as it would have been.
func TestABootWithoutACloudForgetsNobodysUse(t *testing.T) {
	const held, used = "10.96.1.1:80", "10.96.1.2:80"
	for name, away := range map[string]time.Duration{held: preload.WaitIdle - time.Minute, used: preload.Gone + time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, r := webOnly(), newRig(t)
				kept := &source.State{Snapshot: o.Snapshot(), Used: []string{held + "/held", used}, Node: "a-1"}
				must(t, source.NewKeeper(r.cfg.statePath(), 0).Write(kept, time.Now()))
				r.envoy = &nodetest.Envoy{}
				r.mustStart(t)
				after(away)
				o.Plain("held", "10.96.1.1", map[string]string{"b-1": "10.244.9.7"})
				o.Plain("used", "10.96.1.2", map[string]string{"b-1": "10.244.9.8"})
				r.publish(o)
				if _, ok := r.xds.Holds(name); !ok {
					t.Errorf("%s later it is forgotten", away)
				}
			})
		})
	}
}
