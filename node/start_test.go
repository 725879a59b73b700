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
	"github.com/gridmesh/gridmesh/node/nodetest"
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

// Nothing that may wait is asked before the guard is in force.
func TestGuardComesBeforeAnythingThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Latency: 5 * time.Second, Pods: prefixes("10.244.1.0/24")}
		began := time.Now()
		r.mustStart(t)
		r.wantJournal(t, "start", "SetPodCIDRs", "Install", "Tune", "ask pod CIDRs", "SetPodCIDRs", "Tune", "ask policies")
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("the start took %s", took)
		}
		rules, _ := r.kernel.InForce()
		if !slices.Equal(rules.Guard, []netip.Prefix{serviceRange}) || !slices.Equal(rules.Pods, prefixes("10.244.1.0/24")) {
			t.Errorf("in force: %+v", rules)
		}
	})
}

// An API server that does not answer keeps no node from starting.
func TestStartsWithoutAnAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Latency: 5 * time.Second, Away: errBroken}
		r.mustStart(t)
		for _, part := range []string{"no pod CIDR is known", "could not ask for NetworkPolicies"} {
			if r.log.count(part) != 1 {
				t.Errorf("the log does not say %q", part)
			}
		}
		r.publish(webOnly())
		r.wantServed(t, "without pod CIDRs", webFrontend)
	})
}

// With a last good state a start asks nothing that waits.
func TestStartFromStateDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Pods: prefixes("10.244.1.0/24")}
		r.mustStart(t)
		r.publish(webOnly())
		after(saveInterval)
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
		r.wantJournal(t, "start", "SetPodCIDRs", "Install", "Tune")
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
	got := mergePrefixes(flags, state)
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
		if r.log.count("invalid Prefix") > 0 || r.log.count("cidrs=[10.96.0.0/16]") != 1 {
			t.Errorf("the log: %s", r.log.buf.String())
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
		if r.log.count("starting without the last good state") != 1 {
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
		found   []capture.Finding
		cluster bool // has NetworkPolicies
		allow   bool
		refuse  string
	}{
		"nothing":           {},
		"kube-proxy":        {found: []capture.Finding{firewall, proxy}, allow: true, refuse: "rules of kube-proxy"},
		"engine":            {found: []capture.Finding{policy}, refuse: "rules of a policy engine"},
		"engine, allowed":   {found: []capture.Finding{policy}, allow: true},
		"firewall":          {found: []capture.Finding{firewall}},
		"policies":          {cluster: true, refuse: "the cluster has NetworkPolicies"},
		"policies, allowed": {cluster: true, allow: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.found, r.cfg.AllowPolicyBypass = tc.found, tc.allow
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
					if got := len(r.agent.status().Findings); got != want || r.log.count("level=WARN") != want {
						t.Errorf("%d findings in the status, %d warnings, want %d", got, r.log.count("level=WARN"), want)
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
