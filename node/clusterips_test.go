package node

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/source"
)

// theAPIServer is where it answers, and theNode an address of the node.
var theAPIServer, theNode = netip.MustParseAddr("10.200.0.1"), netip.MustParseAddr("10.200.3.7")

// taken is web, with a ServiceCIDR over the API server, and a tenant's Service at an address.
func taken(ip string) *nodetest.Objects {
	o := webOnly()
	o.Builder().SetServiceCIDRs(prefixes("10.200.0.0/24", "10.96.0.0/16"))
	o.Closed("tenant/mine", ip, map[string]string{"a-2": "10.244.2.9"})
	return o
}

// A ClusterIP that is the API server's address, the node's or one of its pods', or in a range that is refused, is
// neither guarded nor served: each would be guarded by itself, and one tenant's Service cut every node off.
func TestAClusterIPThatIsSomebodysAlready(t *testing.T) {
	for ip, whose := range map[string]string{
		"10.200.0.1": "an address of the API server", "10.244.1.7": "an address of this node's pods",
		"10.200.3.7": "an address of this node", "169.254.20.11": "an address of this node", "10.200.0.77": "in a ServiceCIDR that is not in force",
	} {
		for name, begin := range map[string]func(t *testing.T, r *rig){
			"while it runs":    func(t *testing.T, r *rig) { r.mustStart(t); r.publish(webOnly()) },
			"beside the rules": func(t *testing.T, r *rig) { servedBefore(t, r) },
			"after a boot":     func(t *testing.T, r *rig) { servedBefore(t, r); r.boots() },
			"at first":         func(*testing.T, *rig) {},
		} {
			t.Run(ip+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					r.cfg.ServiceCIDRs, r.api = nil, &nodetest.API{Pods: prefixes("10.244.1.0/24"), IPs: []netip.Addr{theNode}, At: []netip.Addr{theAPIServer}}
					begin(t, r)
					if r.source.Publish(taken(ip).Snapshot()); name != "while it runs" {
						r.mustStart(t)
					}
					for range 2 {
						after(time.Minute)
						guarded(t, r, prefixes("10.96.0.0/16")...)
						r.wantServed(t, "with "+ip, webFrontend)
						if got := r.agent.status().Problems; len(got) != 1 || got[0].Object != "service tenant/mine" || got[0].Field != "spec.clusterIPs" ||
							!strings.HasPrefix(got[0].Text, ip+" is "+whose) || !strings.Contains(got[0].Text, "make the Service again") {
							t.Errorf("problems are %v", got)
						}
						r.stop() // and a restart keeps nothing of it
						r.again()
						r.source.Publish(taken(ip).Snapshot())
						r.mustStart(t)
					}
					o := taken(ip)
					o.Closed("tenant/mine", "10.96.0.11", map[string]string{"a-2": "10.244.2.9"})
					r.publish(o)
					r.wantServed(t, "corrected", webFrontend, otherFrontend)
					if got := r.agent.status().Problems; len(got) != 0 {
						t.Errorf("corrected: %v", got)
					}
				})
			})
		}
	}
}

// What is served stays so, whoever is taken for the API server later; what was served before it was known which pods
// there are, or that it is the node's own, does not.
func TestAClusterIPThatWasServed(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(a *nodetest.API)
		stays bool
	}{
		"the API server": {func(a *nodetest.API) { a.At = []netip.Addr{netip.MustParseAddr("10.43.0.7")} }, true},
		"pods":           {func(a *nodetest.API) { a.Pods = prefixes("10.43.0.0/24") }, false},
		"the node":       {func(a *nodetest.API) { a.IPs = []netip.Addr{netip.MustParseAddr("10.43.0.7")} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.cfg.ServiceCIDRs, r.api = nil, &nodetest.API{}
				tell := func(other string) {
					o := webOnly()
					o.Builder().SetServiceCIDRs(nil)
					o.Closed("mine", "10.43.0.7", map[string]string{"a-2": "10.244.2.9"})
					if other != "" {
						o.Closed("other", other, nil)
					}
					r.publish(o)
				}
				r.mustStart(t)
				tell("")
				guarded(t, r, prefixes("10.43.0.7/32", "10.96.0.10/32")...)
				r.api.Set(c.set)
				after(10 * time.Minute)
				if c.stays {
					tell("10.96.0.11")
				}
				rules, _ := r.kernel.InForce()
				if is := slices.Contains(rules.Guard, netip.MustParsePrefix("10.43.0.7/32")); is != c.stays {
					t.Errorf("guarded is %v", rules.Guard)
				}
			})
		})
	}
}

// One in a range that is not in force stays over a restart also where the last good state has not its Service, which is
// far away, by the rules that are there. So does no other, and no address that is somebody's.
func TestAClusterIPFarAwayThatWasServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cfg.ServiceCIDRs, r.api = nil, &nodetest.API{Pods: prefixes("10.244.1.0/24"), At: []netip.Addr{theAPIServer}}
		o := webOnly()
		o.Builder().SetServiceCIDRs(prefixes("10.200.0.0/24"))
		o.Plain("far", "10.200.0.77", map[string]string{"b-1": "10.244.9.6"})
		o.Plain("moved", "10.200.0.79", map[string]string{"b-1": "10.244.9.7"})
		r.mustStart(t)
		r.publish(o)
		after(time.Minute)
		o.Builder().SetServiceCIDRs(prefixes("10.200.0.0/24", "10.96.0.0/16"))
		r.publish(o)
		after(time.Hour)
		all := []string{webFrontend, "10.200.0.77:80/tcp", "10.200.0.79:80/tcp"}
		r.wantServed(t, "the agent that runs", all...)
		if st := r.saved(t); st.Snapshot.Services.Len() != 1 {
			t.Fatalf("%d Services are kept", st.Snapshot.Services.Len())
		}
		for name, begin := range map[string]func(){
			"at once":         func() { r.source.Publish(o.Snapshot()); r.mustStart(t) },
			"the state first": func() { r.mustStart(t); after(liveFirst + time.Second); r.publish(o) },
			"a slow disk": func() {
				giveState, giveNotes := r.hanging()
				r.source.Publish(o.Snapshot())
				r.mustStart(t)
				after(time.Minute)
				r.wantServed(t, "beside a slow disk", all...)
				giveState()
				giveNotes()
			},
			"no state": func() {
				must(t, os.Remove(filepath.Join(r.cfg.StateDir, source.StateFile)))
				r.source.Publish(o.Snapshot())
				r.mustStart(t)
			},
			"a damaged state": func() {
				must(t, os.WriteFile(filepath.Join(r.cfg.StateDir, source.StateFile), []byte("damaged"), 0o600))
				r.source.Publish(o.Snapshot())
				r.mustStart(t)
			},
		} {
			for range 2 {
				r.stop()
				r.again()
				begin()
				after(time.Minute)
				r.wantServed(t, "after a restart, "+name, all...)
			}
		}
		r.stop()
		r.again()
		r.api.IPs = []netip.Addr{netip.MustParseAddr("10.200.0.79")}
		o.Plain("new", "10.200.0.78", map[string]string{"a-2": "10.244.2.9"})
		r.source.Publish(o.Snapshot())
		r.mustStart(t)
		after(time.Minute)
		r.wantServed(t, "beside others", webFrontend, "10.200.0.77:80/tcp")
	})
}

// By which addresses the node is known holds over a restart also without a kernel path, where nobody can ask.
func TestAClusterIPOfTheNodeAfterARestart(t *testing.T) {
	for _, path := range []bool{false, true} {
		for _, late := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.cfg.ServiceCIDRs, r.api = nil, &nodetest.API{Pods: prefixes("10.244.1.0/24"), IPs: []netip.Addr{theNode}}
				r.mustStart(t)
				r.publish(webOnly())
				after(time.Hour)
				for range 2 { // and it is kept for the one after that
					r.stop()
					if r.again(); path {
						r.capture.WithKernelPath()
					}
					r.api = &nodetest.API{Away: errBroken}
					giveState, giveNotes := func() {}, func() {}
					if late {
						giveState, giveNotes = r.hanging()
					}
					r.mustStart(t)
					giveNotes()
					giveState()
					o := webOnly()
					o.Builder().SetServiceCIDRs(prefixes("10.96.0.0/16"))
					o.Closed("tenant/mine", theNode.String(), map[string]string{"a-2": "10.244.2.9"})
					r.publish(o)
					after(time.Hour)
					guarded(t, r, prefixes("10.96.0.0/16")...)
					r.wantServed(t, "after a restart", webFrontend)
				}
			})
		}
	}
}

// An address that the node is found to have later is judged by at once: nobody waits for the next change of a Service.
func TestAClusterIPThatTheNodeIsFoundToHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cfg.ServiceCIDRs, r.api = nil, &nodetest.API{Pods: prefixes("10.244.1.0/24")}
		r.capture.WithKernelPath()
		r.mustStart(t)
		o := webOnly()
		o.Builder().SetServiceCIDRs(prefixes("10.96.0.0/16"))
		o.Closed("tenant/mine", theNode.String(), map[string]string{"a-2": "10.244.2.9"})
		r.publish(o)
		after(time.Minute)
		guarded(t, r, prefixes("10.96.0.0/16", theNode.String()+"/32")...)
		r.capture.RememberIPs(capture.IPs{Homes: []netip.Addr{theNode}})
		after(time.Minute)
		guarded(t, r, prefixes("10.96.0.0/16")...)
		r.wantServed(t, "found to be the node's", webFrontend)
	})
}

// The API server's own Service has its address whatever range that is in; and where the only range of a family is
// refused, its Services are in it.
func TestAClusterIPThatIsRight(t *testing.T) {
	for name, ranges := range map[string][]string{"kubernetes": {"10.200.0.0/24", "10.97.0.0/16"}, "web": {"10.200.0.0/24", "fd00:96::/64"}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.cfg.ServiceCIDRs, r.api = nil, &nodetest.API{Pods: prefixes("10.244.1.0/24"), At: []netip.Addr{theAPIServer}}
			o := nodetest.NewObjects()
			o.Builder().SetServiceCIDRs(prefixes(ranges...))
			o.Closed(name, "10.200.0.77", map[string]string{"a-2": "10.244.2.9"})
			r.source.Publish(o.Snapshot())
			r.mustStart(t)
			after(time.Minute)
			r.wantServed(t, name, "10.200.0.77:80/tcp")
			if got := r.agent.status().Problems; len(got) != 0 {
				t.Errorf("problems are %v", got)
			}
		})
	}
}
