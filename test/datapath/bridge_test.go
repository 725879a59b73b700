package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

const callIPTables = "net/bridge/bridge-nf-call-iptables"

// named returns the node of a name.
func named(t *testing.T, name string) *edge.Node {
	t.Helper()
	for _, e := range w.nodes {
		if e.Name == name {
			return e
		}
	}
	t.Fatalf("no node %s", name)
	return nil
}

// Where bridge netfilter must stay on, pods are redirected; what the tests of
// the datapath show of b-3 is shown with it on.
func TestBridgeNetfilterIsKept(t *testing.T) {
	leaks.None(t, w.lab, leaks.Any)
	f := deploy(t, "kept", `["unit"]`)
	f.served(t)
	e := named(t, "b-3")
	if now, err := e.NS.ReadSysctl(callIPTables); err != nil || now != "1" {
		t.Errorf("%s is %q, want 1 as before: %v", callIPTables, now, err)
	}
	// The redirect's listeners serve what was redirected, and nobody else.
	pod := f.pods[e.Name].NS
	for _, to := range []netip.Addr{e.PodCIDR.Addr().Next(), e.IP, e.PodCIDR6.Addr().Next(), e.IP6} {
		for _, port := range []uint16{15003, 15004} {
			at := netip.AddrPortFrom(to, port)
			if _, err := edge.Ask(pod, "tcp", at, answers); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("pod to %s: %v, want connection refused", at, err)
			}
		}
	}
	e.Envoy.Kill()
	start := time.Now()
	if _, err := edge.Ask(pod, "tcp", f.at(0), answers); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("without Envoy: %v after %s, want connection refused", err, time.Since(start))
	}
	must(t, e.StartEnvoy())
	ready(t, e)
	f.served(t)
}

func TestBridgeNetfilterTurnedOnByOthersGoesOff(t *testing.T) {
	f := deploy(t, "netfilter", `["unit"]`)
	f.served(t)
	e := named(t, "a-2")
	must(t, e.NS.Sysctl(map[string]string{callIPTables: "1"}))
	took := wait.Within(t, repairs, func() error {
		if now, err := e.NS.ReadSysctl(callIPTables); err != nil || now != "0" {
			return fmt.Errorf("%s is %q: %w", callIPTables, now, err)
		}
		return nil
	})
	t.Logf("off again after %s", took)
	f.served(t)
}

// The choice can be changed by a restart of the agent, both ways.
func TestBridgeNetfilterChoiceChanges(t *testing.T) {
	leaks.None(t, w.lab, leaks.Any)
	f := deploy(t, "choice", `["unit"]`)
	f.served(t)
	e := named(t, "b-3")
	kept := e.Flags
	for _, tc := range []struct {
		flags []string
		want  string
		rules bool
	}{{kept[:len(kept)-2], "0", false}, {kept, "1", true}} {
		e.Agent.Signal(syscall.SIGTERM)
		e.Flags = tc.flags
		must(t, e.StartAgent())
		ready(t, e)
		connected(t, e)
		if now, err := e.NS.ReadSysctl(callIPTables); err != nil || now != tc.want {
			t.Errorf("%v: %s is %q, want %s: %v", tc.flags, callIPTables, now, tc.want, err)
		}
		conn, err := e.NS.NFT()
		must(t, err)
		chains, err := conn.ListChains()
		must(t, err)
		has := slices.ContainsFunc(chains, func(c *nftables.Chain) bool { return c.Name == "redirected" })
		if has != tc.rules {
			t.Errorf("%v: chain redirected is there: %v, want %v", tc.flags, has, tc.rules)
		}
		f.served(t)
	}
}
