package node

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/quiet"
	"github.com/gridmesh/gridmesh/node/guard"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/statedir"
)

func TestNewRefusesWhatIsMissing(t *testing.T) {
	r := newRig(t)
	p := r.parts()
	p.Source = nil
	if _, err := New(r.cfg, p); !errors.Is(err, errMissingPart) || !strings.Contains(err.Error(), "Source") {
		t.Errorf("without a source: %v", err)
	}
	r.cfg.Node, r.cfg.PreloadMax, r.cfg.HostsFile, r.cfg.FeedSocket = "", -1, "hosts", ""
	_, err := New(r.cfg, r.parts())
	for _, flag := range []string{"--node-name", "--preload-max -1", `--hosts-file "hosts"`, "--feed-socket"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%v does not name %s", err, flag)
		}
	}
}

func TestNewTouchesNothing(t *testing.T) {
	r := newRig(t)
	r.cfg.StateDir = filepath.Join(r.cfg.StateDir, "absent")
	if _, err := New(r.cfg, r.parts()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(r.cfg.StateDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state directory: %v", err)
	}
	r.wantJournal(t, "after New")
}

// Nothing that may wait is asked before the guard is in force, and nothing
// waits for it.
func TestGuardComesBeforeAnythingThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Latency: 5 * time.Second, Pods: prefixes("10.244.1.0/24")}
		began := time.Now()
		r.mustStart(t)
		if took := time.Since(began); took != 0 {
			t.Errorf("the start took %s", took)
		}
		did := r.journal.Take()
		slices.Sort(did[min(3, len(did)):]) // of goroutines
		if want := []string{"SetPodCIDRs", "Install", "Tune", "ask own Node", "ask policies"}; !slices.Equal(did, want) {
			t.Errorf("start: %v, want %v", did, want)
		}
		if rules, _ := r.kernel.InForce(); !slices.Equal(rules.Guard, []netip.Prefix{serviceRange}) {
			t.Errorf("guarded: %v", rules.Guard)
		}
		r.publish(webOnly())
		r.wantServed(t, "before the API server answers", webFrontend)
		after(5 * time.Second)
		if rules, _ := r.kernel.InForce(); !slices.Equal(rules.Pods, prefixes("10.244.1.0/24")) {
			t.Errorf("pod CIDRs: %v", rules.Pods)
		}
	})
}

// An API server that does not answer keeps no node from starting.
func TestStartsWithoutAnAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Latency: 5 * time.Second, Away: errBroken}
		r.mustStart(t)
		r.publish(webOnly())
		r.wantServed(t, "without pod CIDRs", webFrontend)
		after(time.Hour) // it is said once
		for _, part := range []string{"no pod CIDR is known", "could not ask for NetworkPolicies", "the API server is silent"} {
			if n := r.log.Count(part); n != 1 {
				t.Errorf("the log says %q %d times", part, n)
			}
		}
	})
}

// With a last good state a start asks nothing that waits.
func TestStartFromStateDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Pods: prefixes("10.244.1.0/24")}
		r.mustStart(t)
		r.publish(webOnly())
		after(statedir.SaveInterval)
		r.stop()
		r.again()
		r.api = &nodetest.API{Latency: time.Hour, Away: errBroken}
		r.cfg.ServiceCIDRs = nil
		r.journal.Take()
		began := time.Now()
		r.mustStart(t)
		if took := time.Since(began); took != 0 {
			t.Errorf("the start took %s", took)
		}
		if did := r.journal.Take(); len(did) < 3 || !slices.Equal(did[:3], []string{"SetPodCIDRs", "Install", "Tune"}) {
			t.Errorf("start: %v", did)
		}
		rules, _ := r.kernel.InForce()
		if !slices.Equal(rules.Pods, prefixes("10.244.1.0/24")) {
			t.Errorf("pod CIDRs %v, want those of the state", rules.Pods)
		}
	})
}

// The guard holds the flags' ranges and the state's, and the caller's own
// list stays as it is: a guard once printed as "[10.96.0.0/16 invalid Prefix]".
func TestGuardIsMergedIntoAListOfItsOwn(t *testing.T) {
	flags := append(make([]netip.Prefix, 0, 8), prefixes("10.97.0.0/16", "10.96.0.0/16")...) // with room to be written to
	state := prefixes("10.96.0.0/16", "fd00:10::/108")
	got := guard.Merge(flags, state)
	if want := prefixes("10.96.0.0/16", "10.97.0.0/16", "fd00:10::/108"); !slices.Equal(got, want) {
		t.Errorf("merged: %v, want %v", got, want)
	}
	if !slices.Equal(flags, prefixes("10.97.0.0/16", "10.96.0.0/16")) || !slices.Equal(state, prefixes("10.96.0.0/16", "fd00:10::/108")) {
		t.Errorf("the lists were changed: %v, %v", flags, state)
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		r.publish(webOnly())
		r.stop()
		r.again()
		r.mustStart(t)
		if r.log.Count("invalid Prefix") > 0 || r.log.Count("cidrs=[10.96.0.0/16]") != 1 {
			t.Errorf("the log: %s", r.log.String())
		}
		r.stop()
		r.again()
		r.kernel.Flush()
		r.cfg.ServiceCIDRs = prefixes("10.97.0.0/16")
		r.mustStart(t)
		if rules, _ := r.kernel.InForce(); !slices.Equal(rules.Guard, prefixes("10.96.0.0/16", "10.97.0.0/16")) {
			t.Errorf("guarded: %v, want the state's range and the flag's", rules.Guard)
		}
	})
}

func TestAStateThatIsDamagedIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		path := filepath.Join(r.cfg.StateDir, "state")
		if err := os.WriteFile(path, []byte("no state"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.mustStart(t)
		if r.log.Count("starting without the last good state") != 1 {
			t.Error("the log does not say so")
		}
		if _, err := os.Stat(path + ".bad"); err != nil {
			t.Error(err)
		}
		r.publish(webOnly())
		r.wantServed(t, "without a state", webFrontend)
	})
}

func TestFindingsRefuseOrWarn(t *testing.T) {
	proxy := capture.Finding{Kind: capture.KubeProxy, Text: "rules of kube-proxy"}
	policy := capture.Finding{Kind: capture.PolicyEngine, Text: "rules of a policy engine"}
	firewall := capture.Finding{Kind: capture.InputDrop, Text: "a chain that drops"}
	for name, tc := range map[string]struct {
		found    []capture.Finding
		cluster  bool // has NetworkPolicies
		refusing bool
		refuse   string
	}{
		"nothing":            {},
		"kube-proxy":         {found: []capture.Finding{firewall, proxy}, refuse: "rules of kube-proxy"},
		"engine":             {found: []capture.Finding{policy}},
		"engine, refused":    {found: []capture.Finding{policy}, refusing: true, refuse: "rules of a policy engine"},
		"firewall":           {found: []capture.Finding{firewall}, refusing: true},
		"policies":           {cluster: true},
		"policies, refused":  {cluster: true, refusing: true, refuse: "the cluster has NetworkPolicies"},
		"all, but one fatal": {found: []capture.Finding{policy, firewall}, cluster: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.found, r.cfg.RefusePolicies = tc.found, tc.refusing
				r.api = &nodetest.API{Policy: tc.cluster, Pods: prefixes("10.244.1.0/24")}
				err := r.start(t)
				if tc.refuse == "" {
					if err != nil {
						t.Fatal(err)
					}
					want := len(tc.found)
					if tc.cluster {
						want++
					}
					if got := len(r.agent.status().Findings); got != want || r.log.Count("level=WARN") != want || len(r.api.Events()) != want {
						t.Errorf("%d findings in the status, %d warnings, %d Events, want %d", got, r.log.Count("level=WARN"), len(r.api.Events()), want)
					}
					return
				}
				if !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), tc.refuse) {
					t.Errorf("got %v, want ErrUnfit with %q", err, tc.refuse)
				}
				if events := r.api.Events(); len(events) != 1 || !strings.HasPrefix(events[0], eventRefuses) {
					t.Errorf("Events: %q", events)
				}
				if _, there := r.kernel.InForce(); there {
					t.Error("rules were written on a node that is not fit")
				}
			})
		})
	}
}

// A NetworkPolicy is anybody's to make: what serves goes on, also where a start
// would be refused, and says so once until it is gone.
func TestPoliciesEndNoAgentThatServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cfg.RefusePolicies = true
		r.api = &nodetest.API{Pods: prefixes("10.244.1.0/24")}
		r.mustStart(t)
		r.publish(webOnly())
		r.api.Set(func(a *nodetest.API) { a.Policy = true })
		after(2 * policiesEvery)
		found := func() int { return len(r.agent.status().Findings) }
		if n := r.metric(t, "gridmesh_node_findings"); found() != 1 || n != 1 || len(r.api.Events()) != 1 {
			t.Errorf("%d findings, %v counted, Events %q", found(), n, r.api.Events())
		}
		r.wantServed(t, "with a policy", webFrontend)
		r.wantHealthy(t, "with a policy", true)
		after(10 * policiesEvery)
		if n := r.log.Count("the cluster has NetworkPolicies"); n != 1 {
			t.Errorf("said %d times", n)
		}
		r.stop()
		r.again()
		r.mustStart(t) // beside the rules of the run before
		if found() != 1 {
			t.Error("not found by the next start")
		}
		r.api.Set(func(a *nodetest.API) { a.Policy = false })
		after(2 * policiesEvery)
		if found() != 0 {
			t.Error("found for ever")
		}
	})
}

// kube-proxy may come when the agent runs.
func TestTheNodeIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		r.publish(webOnly())
		look := func(list ...capture.Finding) {
			r.mu.Lock()
			r.found = list
			r.mu.Unlock()
			after(2 * inspectEvery)
		}
		look(capture.Finding{Kind: capture.KubeProxy, Text: "rules of kube-proxy"})
		if got := r.agent.status().Findings; len(got) != 1 || r.log.Count("rules of kube-proxy") != 1 {
			t.Errorf("findings: %v", got)
		}
		r.wantServed(t, "beside kube-proxy", webFrontend)
		look()
		if got := r.agent.status().Findings; len(got) != 0 {
			t.Errorf("findings: %v", got)
		}
	})
}

// A Node may get its pod CIDRs late, or others when it registers again.
func TestPodCIDRsFollowTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{}
		r.mustStart(t)
		o := webOnly()
		r.publish(o)
		set := func(text string) { r.api.Set(func(a *nodetest.API) { a.Pods = prefixes(text) }) }
		want := func(when, text string) {
			t.Helper()
			if rules, _ := r.kernel.InForce(); !slices.Equal(rules.Pods, prefixes(text)) {
				t.Errorf("%s: %v, want %s", when, rules.Pods, text)
			}
			r.wantServed(t, when, webFrontend)
		}
		set("10.244.1.0/24")
		after(2 * podCIDRsSoon)
		want("assigned late", "10.244.1.0/24")
		set("10.244.7.0/24")
		after(2 * podCIDRsEvery)
		want("others", "10.244.7.0/24")
		o.Builder().DeleteNode("a-1")
		r.publish(o)
		set("10.244.8.0/24")
		o.Node("a-1", "a")
		r.publish(o)
		want("deleted and registered again", "10.244.8.0/24")
		r.api.Set(func(a *nodetest.API) { a.Pods = nil })
		after(2 * podCIDRsEvery)
		want("none for a moment", "10.244.8.0/24")
		set("10.244.9.0/24")
		r.capture.Fail("SetPodCIDRs", errBroken)
		after(2 * podCIDRsSoon)
		want("after a failed write", "10.244.9.0/24")
		after(statedir.SaveInterval)
		r.stop()
		if got := r.saved(t).PodCIDRs; !slices.Equal(got, prefixes("10.244.9.0/24")) {
			t.Errorf("saved: %v", got)
		}
	})
}

// A node that told pods from others goes on to after a restart, also where its
// state file is lost and the API server away: rules are looked at at once then.
func TestFoundPodsAreKeptUntilTheNodeSaysOtherwise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Pods: prefixes("10.244.1.0/24")}
		r.mustStart(t)
		r.publish(webOnly())
		r.stop()
		must(t, os.RemoveAll(r.cfg.StateDir))
		r.again()
		r.api = &nodetest.API{Away: errBroken}
		r.mustStart(t)
		want := func(when, text string) {
			t.Helper()
			if rules, _ := r.kernel.InForce(); !slices.Equal(rules.Pods, prefixes(text)) {
				t.Errorf("%s: the kernel knows the pods %v, want %s", when, rules.Pods, text)
			}
		}
		want("started", "10.244.1.0/24")
		r.links <- struct{}{}
		synctest.Wait()
		want("a link changed", "10.244.1.0/24")
		after(time.Hour)
		want("an hour later", "10.244.1.0/24")
		if r.log.Count("changed by somebody else") > 0 || r.metric(t, "gridmesh_capture_repairs_total") != 0 {
			t.Error("our own rules are said to be somebody else's doing")
		}
		r.api.Set(func(a *nodetest.API) { a.Away, a.Pods = nil, prefixes("10.244.2.0/24") })
		after(2 * podCIDRsEvery)
		want("the Node says otherwise", "10.244.2.0/24")
	})
}

// Where nobody will ever say which ranges are the pods', what the flags say
// counts; that rules of a run before are written anew is nobody else's doing.
func TestRulesOfARunBeforeAreNobodyElsesDoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cfg.PodCIDRs = prefixes("10.244.1.0/24")
		r.mustStart(t)
		r.publish(webOnly())
		r.stop()
		r.again()
		r.cfg.PodCIDRs = nil
		r.mustStart(t)
		r.publish(webOnly())
		after(2 * repairEvery)
		if rules, _ := r.kernel.InForce(); len(rules.Pods) > 0 {
			t.Errorf("pods without a flag: %v", rules.Pods)
		}
		if r.log.Count("changed by somebody else") > 0 || r.metric(t, "gridmesh_capture_repairs_total") != 0 {
			t.Error("our own rules are said to be somebody else's doing")
		}
		if r.log.Count("written anew") != 1 {
			t.Error("that they were written anew is not said")
		}
	})
}

// Somebody who changes the rules in a loop fills no disk; each time is counted.
func TestRepairsAreSaidNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		r.publish(webOnly())
		for range 1000 {
			r.kernel.Flush()
			r.links <- struct{}{}
			after(time.Second)
			r.wantServed(t, "repaired", webFrontend)
		}
		said := r.log.Count("changed by somebody else")
		if most := quiet.Burst + int(1000*time.Second/quiet.Every); said < 2 || said > most {
			t.Errorf("said %d times, want up to %d", said, most)
		}
		if n := r.metric(t, "gridmesh_capture_repairs_total"); n != 1000 {
			t.Errorf("%v are counted", n)
		}
		if r.log.Count("unsaid=") == 0 {
			t.Error("nothing says how many were not said")
		}
		r.capture.Fail("Repair", errBroken)
		r.links <- struct{}{}
		synctest.Wait()
		if r.log.Count("could not put the capture rules in order") != 1 {
			t.Error("another message is held back, too")
		}
	})
}

// A kernel that refuses every write is told of now and then, too.
func TestFailuresAreSaidNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		r.publish(webOnly())
		for range 1000 {
			r.capture.Fail("Extend", errBroken)
			r.capture.Fail("RefreshBridges", errBroken)
			r.publish(webAndOther())
			after(time.Second)
		}
		for _, text := range []string{"could not write the capture rules", "could not follow the pod network's bridge"} {
			if said, most := r.log.Count(text), quiet.Burst+int(2000*time.Second/quiet.Every); said == 0 || said > most {
				t.Errorf("%q is said %d times, want up to %d", text, said, most)
			}
		}
	})
}
