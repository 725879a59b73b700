package node

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/topology"
)

// paths is what node a-1 sees where Envoy serves some Services and the kernel
// others, by the last byte of their address.
func paths(envoy, kernel []string) *topology.View {
	o := nodetest.NewObjects()
	for _, n := range envoy {
		o.Closed("s"+n, "10.96.0."+n, map[string]string{"a-2": "10.244.2." + n})
	}
	for _, n := range kernel {
		o.Plain("s"+n, "10.96.0."+n, map[string]string{"a-2": "10.244.2." + n})
	}
	return topology.See(o.Snapshot(), "a-1", topology.Options{Datapath: topology.DatapathAuto})
}

func (k kernel) wantKernel(t *testing.T, when string, absent bool, services ...string) {
	t.Helper()
	rules, _ := k.inForce()
	var got, want []string
	for _, f := range rules.Kernel {
		got = append(got, f.String())
	}
	for _, n := range services {
		want = append(want, fmt.Sprintf("10.96.0.%s:80/tcp", n))
	}
	if !slices.Equal(got, want) || rules.Absent != absent {
		t.Errorf("%s: the kernel path has %v, absent %v; want %v, %v", when, got, rules.Absent, want, absent)
	}
}

// installedPaths is a capture with the kernel path, whose guard is in force.
func (k kernel) installedPaths(t *testing.T) Capture {
	t.Helper()
	c := k.paths()
	must(t, c.Install([]netip.Prefix{serviceRange}))
	return c
}

func kernelFollows(t *testing.T, k kernel) {
	c := k.installedPaths(t)
	apply(t, c, paths([]string{"10"}, []string{"11"}), false)
	k.wantServed(t, "first", "10")
	k.wantKernel(t, "first", false, "10", "11")
	must(t, c.Retract(paths([]string{"11"}, []string{"10", "12"}), false))
	k.wantServed(t, "retracted")
	k.wantKernel(t, "retracted", false, "10", "11", "12")
	must(t, c.Extend())
	k.wantServed(t, "extended", "11")
	k.wantKernel(t, "extended", false, "10", "11", "12")

	next := k.installedPaths(t)
	apply(t, next, paths(nil, []string{"13"}), true)
	k.wantKernel(t, "provisional", false, "10", "11", "12", "13")
	apply(t, next, paths(nil, []string{"13"}), false)
	k.wantKernel(t, "whole", false, "13")
	must(t, next.Remove())
	if rules, there := k.inForce(); there || len(rules.Kernel) > 0 {
		t.Errorf("in force after Remove: %+v", rules)
	}
}

func kernelFails(t *testing.T, k kernel) {
	c := k.installedPaths(t)
	apply(t, c, paths([]string{"10"}, nil), false)
	k.flush()
	if err := c.Retract(paths(nil, []string{"10"}), false); err == nil {
		t.Fatal("what is not there was changed")
	}
	if !c.Due() {
		t.Error("nothing is due after a failure")
	}
	if _, err := c.Repair(); err != nil {
		t.Fatal(err)
	}
	k.wantKernel(t, "repaired", false, "10")
	apply(t, c, paths(nil, []string{"10"}), false)
	k.wantServed(t, "tried again")
	k.wantKernel(t, "tried again", false, "10")
}

// What Envoy serves more is served, and nothing is taken from it.
func kernelFailsAlone(t *testing.T, k kernel) {
	c := k.installedPaths(t)
	apply(t, c, paths([]string{"10", "11"}, []string{"12"}), false)
	k.flushPath()
	next := paths([]string{"11", "13"}, []string{"10", "12"})
	if err := c.Retract(next, false); err == nil {
		t.Fatal("what is not there was changed")
	}
	if handed := c.Handed(); !slices.ContainsFunc(handed, func(f topology.Frontend) bool { return f.String() == "10.96.0.13:80/tcp" }) {
		t.Errorf("Extend hands Envoy %v", handed)
	}
	must(t, c.Extend())
	k.wantServed(t, "without the kernel path", "10", "11", "13")
	if !c.Due() {
		t.Error("nothing is due after a failure")
	}
	if _, err := c.Repair(); err != nil {
		t.Fatal(err)
	}
	k.wantKernel(t, "repaired", false, "10", "11", "12", "13")
	apply(t, c, next, false)
	k.wantServed(t, "tried again", "11", "13")
	k.wantKernel(t, "tried again", false, "10", "11", "12", "13")
}

// The last good state hands Envoy nothing that is to be waited for, whether the kernel path takes it or not.
func kernelFailsAtFirst(t *testing.T, k kernel) {
	c := k.installedPaths(t)
	k.flushPath()
	if err := c.Retract(paths([]string{"10"}, []string{"11"}), true); err == nil {
		t.Fatal("what is not there was changed")
	}
	if handed := c.Handed(); len(handed) > 0 {
		t.Errorf("Extend hands Envoy %v", handed)
	}
	must(t, c.Extend())
	k.wantServed(t, "without the kernel path", "10")
}

func kernelServes(t *testing.T, k kernel) {
	c := k.paths()
	must(t, c.EnvoyAbsent(true)) // which Install writes, or Repair
	must(t, c.Install([]netip.Prefix{serviceRange}))
	if _, err := c.Repair(); err != nil {
		t.Fatal(err)
	}
	apply(t, c, paths([]string{"10"}, nil), false)
	for _, absent := range []bool{false, true} {
		must(t, c.EnvoyAbsent(absent))
		k.wantKernel(t, "told", absent, "10")
		k.wantServed(t, "told", "10")
	}
	k.flush()
	if _, err := c.Repair(); err != nil {
		t.Fatal(err)
	}
	k.wantKernel(t, "repaired", true, "10")
}

// What the agent moves from path to path is nobody else's change, and no repair.
func ownMoves(t *testing.T, k kernel) {
	c := k.installedPaths(t)
	moved := func(when string) {
		t.Helper()
		if c.Due() {
			t.Errorf("%s: something is due", when)
		}
		if repaired, err := c.Repair(); repaired || err != nil {
			t.Errorf("%s: repaired %v, %v", when, repaired, err)
		}
	}
	apply(t, c, paths([]string{"10"}, []string{"11"}), false)
	if _, err := c.Repair(); err != nil {
		t.Fatal(err)
	}
	must(t, c.EnvoyAbsent(true))
	moved("Envoy is absent")
	apply(t, c, paths(nil, []string{"10", "11"}), false)
	moved("all is the kernel's")
	apply(t, c, paths([]string{"10"}, []string{"11"}), false)
	moved("Envoy's again")
	must(t, c.EnvoyAbsent(false))
	moved("Envoy is back")
}

func kernelIsOff(t *testing.T, k kernel) {
	apply(t, k.installedPaths(t), paths([]string{"10"}, []string{"11"}), false)
	c := k.installed(t)
	apply(t, c, view("10"), false)
	must(t, c.EnvoyAbsent(true))
	k.wantKernel(t, "off", false)
	k.wantServed(t, "off", "10")
	apply(t, k.installedPaths(t), paths([]string{"10"}, []string{"11"}), false)
	k.wantKernel(t, "on again", false, "10", "11")
	k.wantServed(t, "on again", "10")
}
