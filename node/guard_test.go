package node

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/topology"
)

// A guard that would cut the node off keeps its first agent from starting; on a
// node that was served it is said, and said again when it is over and back.
func TestAGuardThatCutsTheNodeOff(t *testing.T) {
	eth := []capture.Network{{Prefix: netip.MustParsePrefix("10.96.3.0/24"), Link: "eth0"}}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Pods: prefixes("10.244.1.0/24")}
		r.host = eth
		if err := r.start(t); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "--service-cidr 10.96.0.0/16 overlaps 10.96.3.0/24, the network of eth0") {
			t.Errorf("got %v", err)
		}
		if _, there := r.kernel.InForce(); there || len(r.api.Events()) != 1 {
			t.Errorf("rules: %v; Events: %q", there, r.api.Events())
		}
		r.host = nil
		r.again()
		r.mustStart(t)
		r.publish(webOnly())
		r.stop()
		r.again()
		r.host = eth
		r.mustStart(t) // beside the rules of the run before
		found := func() int { return len(r.agent.status().Findings) }
		if found() != 1 || r.log.Count("the network of eth0") != 1 || r.metric(t, "gridmesh_node_findings") != 1 {
			t.Errorf("%d findings: %s", found(), r.log.String())
		}
		set := func(list []capture.Network) {
			r.mu.Lock()
			r.host = list
			r.mu.Unlock()
			after(2 * inspectEvery)
		}
		if set(nil); found() != 0 {
			t.Error("found for ever")
		}
		if set(eth); found() != 1 {
			t.Error("judged once, and never again")
		}
		r.stop()
		r.again() // a rollout of another range, in which this host is: the rules of before go on
		right := r.cfg.ServiceCIDRs
		r.cfg.ServiceCIDRs = prefixes("10.0.0.0/8")
		before, _ := r.kernel.InForce()
		if err := r.start(t); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "--service-cidr 10.0.0.0/8 overlaps 10.96.3.0/24") {
			t.Errorf("another range: %v", err)
		}
		if after, _ := r.kernel.InForce(); !reflect.DeepEqual(after, before) {
			t.Errorf("in force is %+v, and was %+v", after, before)
		}
		r.cfg.ServiceCIDRs = right
		r.kernel = &nodetest.Kernel{} // a boot: the rules are gone, the state is not
		r.again()
		r.mustStart(t)
		if _, there := r.kernel.InForce(); !there {
			t.Error("no guard after a boot")
		}
	})
}

// What the cluster says later is judged when it says so.
func TestTheGuardIsJudgedAgainWithTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{}
		r.mustStart(t)
		o := webOnly()
		o.Builder().SetServiceCIDRs(prefixes("10.43.0.0/16"))
		r.publish(o)
		if got := r.agent.status().Findings; len(got) != 1 || !strings.Contains(got[0].Text, "none of the cluster's ServiceCIDRs") {
			t.Errorf("at once: %v", got)
		}
		o.Builder().SetServiceCIDRs(prefixes("10.96.0.0/16"))
		r.publish(o)
		if got := r.agent.status().Findings; len(got) != 0 {
			t.Errorf("the cluster's ranges are what is guarded: %v", got)
		}
		// The Node gets pods in the range.
		r.api.Set(func(a *nodetest.API) { a.Pods = prefixes("10.96.7.0/24") })
		after(2 * podCIDRsSoon)
		if got := r.agent.status().Findings; len(got) != 1 || !strings.Contains(got[0].Text, "the pods of this node") {
			t.Errorf("pods of the Node: %v", got)
		}
	})
}

// A range of the source in which this node's pods are, or its loopback, is not guarded: what was is, in its place,
// and all is as it says when it is corrected. What is guarded already, when pods come into it, stays so. Nor are new
// Services guarded one by one that have their ClusterIPs of it, or one that is the API server's address.
func TestARangeOfTheSourceThatCutsOffPods(t *testing.T) {
	for _, wrong := range []string{"10.0.0.0/8", "10.244.0.0/16", "0.0.0.0/0", "127.0.0.0/16", "169.254.20.0/24", "fd00:6772:6964::/64", "::/0", "10.200.0.0/24", "fd00:200::/64"} {
		for name, begin := range map[string]func(t *testing.T, r *rig){
			"while it runs":         func(t *testing.T, r *rig) { r.mustStart(t); r.publish(webOnly()) },
			"beside the rules":      func(t *testing.T, r *rig) { servedBefore(t, r) },
			"after a boot":          func(t *testing.T, r *rig) { servedBefore(t, r); r.boots() },
			"nothing was before it": func(*testing.T, *rig) {},
		} {
			t.Run(name+" "+wrong, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					r.cfg.ServiceCIDRs, r.api = nil, &nodetest.API{
						Pods: prefixes("10.244.1.0/24"), At: []netip.Addr{netip.MustParseAddr("10.200.0.1"), netip.MustParseAddr("fd00:200::1")},
					}
					want, served := prefixes("10.96.0.0/16", "10.97.0.0/16"), []string{webFrontend}
					begin(t, r)
					switch holds := netip.MustParsePrefix(wrong).Contains(netip.MustParseAddr("10.96.0.10")); {
					case name == "nothing was before it" && holds:
						want, served = prefixes("10.97.0.0/16"), nil
					case name == "nothing was before it":
						want = prefixes("10.96.0.10/32", "10.97.0.0/16")
					}
					o := webOnly()
					o.Closed("tenant/mine", "10.200.0.1", map[string]string{"a-2": "10.244.2.9"})
					o.Builder().SetServiceCIDRs(prefixes(wrong, "10.97.0.0/16"))
					if r.source.Publish(o.Snapshot()); name != "while it runs" {
						r.mustStart(t)
					}
					after(time.Minute)
					guarded := func(when string) {
						t.Helper()
						if rules, _ := r.kernel.InForce(); !slices.Equal(rules.Guard, want) {
							t.Errorf("%s: guarded are %v, want %v", when, rules.Guard, want)
						}
					}
					guarded("wrong")
					r.wantServed(t, "wrong", served...)
					got := r.agent.status().Findings
					if !slices.ContainsFunc(got, func(f capture.Finding) bool { return strings.Contains(f.Text, "ServiceCIDR "+wrong+" is not in force") }) {
						t.Errorf("found %v", got)
					}
					o.Builder().SetServiceCIDRs(prefixes("10.96.0.0/16", "10.98.0.0/16"))
					r.publish(o)
					want = prefixes("10.96.0.0/16", "10.98.0.0/16")
					if guarded("corrected"); len(r.agent.status().Findings) > 0 {
						t.Errorf("corrected: found %v", r.agent.status().Findings)
					}
				})
			})
		}
	}
}

// An agent may ask the API server by its ClusterIP, which is in a right range.
func TestARangeWithTheClusterIPOfTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		ip := netip.MustParseAddr("10.96.0.1")
		r.cfg.ServiceCIDRs, r.api = nil, &nodetest.API{Pods: prefixes("10.244.1.0/24"), At: []netip.Addr{ip}}
		o := webOnly()
		o.Builder().SetServiceCIDRs(prefixes("10.96.0.0/16"))
		o.Builder().SetService(&topology.Service{
			Key: topology.ObjectKey{Namespace: "default", Name: "kubernetes"}, ClusterIPs: []netip.Addr{ip},
			Ports: []topology.ServicePort{{Name: "https", Protocol: topology.TCP, Port: 443}},
		})
		r.source.Publish(o.Snapshot())
		r.mustStart(t)
		after(time.Minute)
		guarded(t, r, prefixes("10.96.0.0/16")...)
		if found := r.agent.status().Findings; len(found) > 0 {
			t.Errorf("found %v", found)
		}
	})
}

// What is guarded stays so, whoever is taken for the API server later, also where nobody knows the pods of the node:
// by its name it may be led elsewhere, and its Service may be deleted for a moment.
func TestAGuardedRangeWithTheAPIServerLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cfg.ServiceCIDRs, r.api = nil, &nodetest.API{}
		o := webOnly()
		o.Builder().SetServiceCIDRs(prefixes("10.96.0.0/16"))
		r.source.Publish(o.Snapshot())
		r.mustStart(t)
		after(time.Minute)
		guarded(t, r, prefixes("10.96.0.0/16")...)
		r.api.Set(func(a *nodetest.API) { a.At = []netip.Addr{netip.MustParseAddr("10.96.0.77")} })
		o = webAndOther()
		o.Builder().SetServiceCIDRs(prefixes("10.96.0.0/16"))
		r.publish(o)
		after(time.Minute)
		guarded(t, r, prefixes("10.96.0.0/16")...)
	})
}

// It is so at a first start, where the ranges are told before the pods; and the finding stays, whatever is written
// meanwhile. Ranges that are removed on purpose are not guarded again.
func TestRangesOfTheSourceOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cfg.ServiceCIDRs, r.api = nil, &nodetest.API{}
		tell := func(list ...string) {
			o := webOnly()
			o.Builder().SetServiceCIDRs(prefixes(list...))
			r.publish(o)
			after(time.Minute)
		}
		refused := func(when string, want bool) {
			t.Helper()
			is := slices.ContainsFunc(r.agent.status().Findings, func(f capture.Finding) bool { return strings.Contains(f.Text, "is not in force") })
			if is != want {
				t.Errorf("%s: found %v", when, r.agent.status().Findings)
			}
		}
		r.mustStart(t)
		tell("10.96.0.0/16")
		r.api.Set(func(a *nodetest.API) { a.Pods = prefixes("10.244.7.0/24") })
		after(time.Minute)
		tell("10.0.0.0/8")
		guarded(t, r, prefixes("10.96.0.0/16")...)
		refused("wrong", true)
		r.loop.apply(r.loop.snap) // as what is tried again, and votes, do
		refused("applied again", true)
		tell("10.0.0.0/8", "10.97.0.0/16")
		guarded(t, r, prefixes("10.96.0.0/16", "10.97.0.0/16")...)
		tell("10.0.0.0/8")
		guarded(t, r, prefixes("10.96.0.0/16")...)
		r.api.Set(func(a *nodetest.API) { a.Pods = prefixes("172.16.7.0/24") }) // the pods were the mistake
		after(10 * time.Minute)
		guarded(t, r, prefixes("10.0.0.0/8")...)
		refused("corrected", false)
		tell()
		tell("172.16.0.0/12")
		guarded(t, r, prefixes("10.96.0.10/32")...)
		refused("wrong again", true)
	})
}

// What a run before guarded is guarded in its place also where a slow disk tells it late,
// whether the pods or the snapshot come first.
func TestARangeOfTheSourceBesideALateState(t *testing.T) {
	for _, podsFirst := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.cfg.ServiceCIDRs, r.api = nil, &nodetest.API{Pods: prefixes("10.244.1.0/24")}
			servedBefore(t, r)
			giveState, giveNotes := r.hanging()
			r.boots()
			o := webOnly()
			o.Builder().SetServiceCIDRs(prefixes("10.0.0.0/8"))
			if !podsFirst {
				r.api.Latency = time.Second
				r.source.Publish(o.Snapshot())
			}
			r.mustStart(t)
			r.source.Publish(o.Snapshot())
			after(time.Minute)
			guarded(t, r, prefixes("10.96.0.10/32")...)
			giveState()
			giveNotes()
			after(time.Minute)
			guarded(t, r, prefixes("10.96.0.0/16")...)
			if st := r.saved(t); st == nil || !slices.Equal(st.Snapshot.ServiceCIDRs, prefixes("10.96.0.0/16")) {
				t.Errorf("the pods first %v: kept is %v", podsFirst, st)
			}
		})
	}
}

// Nor is one that a run before guarded while it did not know which pods there are.
func TestARangeOfBeforeThePodsWereKnown(t *testing.T) {
	for _, boot := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.cfg.ServiceCIDRs, r.api = nil, &nodetest.API{}
			o := webOnly()
			o.Builder().SetServiceCIDRs(prefixes("10.96.0.0/16", "10.244.0.0/16"))
			r.mustStart(t)
			r.publish(o)
			after(time.Minute)
			r.stop()
			if r.again(); boot {
				r.boots()
			}
			r.api.Set(func(a *nodetest.API) { a.Pods = prefixes("10.244.7.0/24") })
			r.source.Publish(o.Snapshot())
			r.mustStart(t)
			after(time.Minute)
			guarded(t, r, prefixes("10.96.0.0/16")...)
		})
	}
}

// Without ServiceCIDRs, as of an API server before 1.33, the Services say that a range is none
// of the cluster's: at once where the last good state has them, though no API server answers
// an agent that cut itself off.
func TestAGuardWhereNoServiceIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		o := webOnly()
		o.Builder().SetServiceCIDRs(nil)
		r.publish(o)
		after(time.Minute) // the state is written
		if got := r.agent.status().Findings; len(got) != 0 {
			t.Errorf("with the right flag: %v", got)
		}
		r.stop()
		r.again()
		r.cfg.ServiceCIDRs = prefixes("10.43.0.0/16")
		r.mustStart(t) // no source tells anything
		after(time.Second)
		const want = "--service-cidr 10.43.0.0/16 holds the ClusterIP of no Service"
		got := r.agent.status().Findings
		if len(got) != 1 || !strings.Contains(got[0].Text, want) || r.log.Count(want) != 1 || r.metric(t, "gridmesh_node_findings") != 1 {
			t.Errorf("found %v: %s", got, r.log.String())
		}
		after(3 * inspectEvery)
		if r.log.Count(want) != 1 {
			t.Errorf("it is told again and again: %s", r.log.String())
		}
		r.wantServed(t, "all the same", webFrontend)
	})
}

// Pods of other nodes in the range are found as they come, go when they go, and
// do not grow the report.
func TestEndpointsInTheGuardAreAProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		o := webOnly()
		r.publish(o)
		problems := func() []topology.Problem { return r.agent.status().Problems }
		if got := problems(); len(got) != 0 {
			t.Errorf("before: %v", got)
		}
		for i := range 300 {
			o.Plain(fmt.Sprintf("s%03d", i), fmt.Sprintf("10.96.%d.%d", 1+i/250, 1+i%250), map[string]string{"b-1": fmt.Sprintf("10.96.%d.9", i%200)})
		}
		r.publish(o)
		got := problems()
		if len(got) != 1 || got[0].Object != "service default/s000" || got[0].Field != "--service-cidr" ||
			!strings.Contains(got[0].Text, "its endpoint 10.96.0.9 is in the guarded range 10.96.0.0/16, as those of 299 other Services") {
			t.Errorf("got %v", got)
		}
		for i := range 300 {
			o.Delete(fmt.Sprintf("s%03d", i))
		}
		r.publish(o)
		if got := problems(); len(got) != 0 {
			t.Errorf("afterwards: %v", got)
		}
		o.Plain("late", "10.97.0.1", map[string]string{"b-1": "10.97.3.9"})
		o.Builder().SetServiceCIDRs(prefixes("10.96.0.0/16", "10.97.0.0/16"))
		r.publish(o)
		if got := problems(); len(got) != 1 || got[0].Field != "ServiceCIDR" {
			t.Errorf("with another range: %v", got)
		}
		after(time.Minute)
	})
}

// Pods that a run before knew, in a range of a new flag: the rules of that run
// go on, and nobody starts without pods.
func TestPodsInANewFlagsRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Pods: prefixes("10.97.1.0/24")}
		r.mustStart(t)
		r.publish(webOnly())
		r.stop()
		r.again()
		r.cfg.ServiceCIDRs = prefixes("10.97.0.0/16")
		if err := r.start(t); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "--service-cidr 10.97.0.0/16 overlaps 10.97.1.0/24, the pods of this node") {
			t.Errorf("got %v", err)
		}
		r.wantServed(t, "by the run before", webFrontend)
	})
}

// Lists that others tear all the time end no start before the guard: what is seen of
// them counts, and there is another look.
func TestAStartBesideTornLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.looked = fmt.Errorf("list routes: %w, 5 times", dump.ErrTorn)
		r.found = []capture.Finding{{Kind: capture.KubeProxy, Text: "kube-proxy"}}
		if err := r.start(t); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "kube-proxy") {
			t.Errorf("with kube-proxy in what was seen: %v", err)
		}
		r.again()
		r.found = []capture.Finding{{Kind: capture.PolicyEngine, Text: "policies"}}
		r.mustStart(t)
		if rules, there := r.kernel.InForce(); !there || len(rules.Guard) == 0 {
			t.Errorf("in force is %+v", rules)
		}
		if got := r.agent.status().Findings; len(got) != 1 || r.log.Count("could not look at all of the node") == 0 {
			t.Errorf("found %v: %s", got, r.log.String())
		}
	})
}

// What cannot be looked at ends no start either: a node that nobody guards is worse. It is
// a finding until it was looked at, and what was seen of it counts. A start once ended,
// again and again, on a node without a guard.
func TestAStartThatCannotLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.looked = errBroken
		r.found = []capture.Finding{{Kind: capture.KubeProxy, Text: "kube-proxy"}}
		if err := r.start(t); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "kube-proxy") {
			t.Errorf("with kube-proxy in what was seen: %v", err)
		}
		r.again()
		r.found = nil
		r.mustStart(t)
		if rules, there := r.kernel.InForce(); !there || len(rules.Guard) == 0 {
			t.Errorf("in force is %+v", rules)
		}
		kinds := func() (list []capture.FindingKind) {
			for _, f := range r.agent.status().Findings {
				list = append(list, f.Kind)
			}
			return list
		}
		if got := kinds(); !slices.Equal(got, []capture.FindingKind{capture.Unseen}) || r.log.Count(errBroken.Error()) == 0 {
			t.Errorf("found %v: %s", got, r.log.String())
		}
		after(2 * inspectEvery)
		r.mu.Lock()
		r.looked = nil
		r.mu.Unlock()
		after(2 * inspectEvery)
		if got := kinds(); len(got) != 0 {
			t.Errorf("after a look there is still %v", got)
		}
		r.mu.Lock()
		r.looked = errBroken
		r.mu.Unlock()
		after(4 * inspectEvery)
		if got := kinds(); !slices.Equal(got, []capture.FindingKind{capture.Unseen}) {
			t.Errorf("while no look ends well: %v", got)
		}
	})
}

// What comes while looks end with an error is told when it is seen first; and what was found
// before is not gone because a look ends before it comes there.
func TestWhatComesWhileNoLookEndsWell(t *testing.T) {
	for _, c := range []struct {
		why    error
		unseen []string
	}{{errBroken, []string{string(capture.Unseen)}}, {fmt.Errorf("chains: %w", dump.ErrTorn), nil}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.mustStart(t)
			look := func(why error, found ...capture.Finding) {
				r.mu.Lock()
				r.found, r.looked = found, why
				r.mu.Unlock()
				fill(r.agent.inspection)
				synctest.Wait()
			}
			want := func(when string, want ...string) {
				t.Helper()
				var got []string
				for _, f := range r.agent.status().Findings {
					got = append(got, string(f.Kind))
				}
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("%v: %s: found %q, want %q", c.why, when, got, want)
				}
			}
			drop, proxy := capture.Finding{Kind: capture.InputDrop, Text: "a firewall"}, capture.Finding{Kind: capture.KubeProxy, Text: "kube-proxy"}
			look(nil, drop)
			want("a look that ends well", "input-drop")
			look(c.why, proxy)
			want("the first that does not", "input-drop", "kube-proxy")
			look(c.why)
			want("the second, which sees neither", append([]string{"input-drop", "kube-proxy"}, c.unseen...)...)
			look(c.why, proxy)
			if n := r.log.Count("msg=kube-proxy"); n != 1 {
				t.Errorf("%v: told %d times", c.why, n)
			}
			look(nil)
			want("none is there")
		})
	}
}
