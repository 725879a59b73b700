package node

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/topology"
)

// inNamespaces is set in the environment of a test process that may change
// the rules of the network it is in.
const inNamespaces = "GRIDMESH_NODE_IN_NAMESPACES"

// kernel is one node whose rules a Capture writes: in memory, or the real one
// in a network namespace of its own.
type kernel struct {
	open    func() Capture // a new process
	paths   func() Capture // one with the kernel path on
	inForce func() (nodetest.Rules, bool)
	flush   func() // by somebody else

	flushPath func() // the kernel path alone
}

func TestCaptureTwinKeepsTheContract(t *testing.T) {
	captureContract(t, func(*testing.T) kernel {
		k := &nodetest.Kernel{}
		return kernel{
			open:  func() Capture { return nodetest.NewCapture(k, nil) },
			paths: func() Capture { return nodetest.NewCapture(k, nil).WithKernelPath() }, inForce: k.InForce, flush: k.Flush, flushPath: k.FlushPath,
		}
	})
}

// The real capture runs in namespaces: this test starts itself again inside.
func TestCaptureKeepsTheContract(t *testing.T) {
	if inside(t, "THE REAL CAPTURE", unix.CLONE_NEWNET) {
		captureContract(t, realKernel)
	}
}

// inside reports whether this process may change what the namespaces are for.
// Where it may not, it starts the test again in a process that may, and waits.
func inside(t *testing.T, untested string, namespaces uintptr) bool {
	t.Helper()
	if os.Getenv(inNamespaces) != "" {
		return true
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inNamespaces+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | namespaces,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	runtime.LockOSThread() // the parent-death signal is tied to the thread that forks
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		t.Logf("in namespaces of its own:\n%s", out)
	case errors.As(err, &exit):
		t.Errorf("in namespaces of its own: %v\n%s", err, out)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EINVAL):
		t.Skipf("NOT TESTED: %s. This machine allows no user, network and mount namespaces (%v); "+
			"sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces>0, kernel.apparmor_restrict_unprivileged_userns=0", untested, err)
	default:
		t.Fatal(err)
	}
	return false
}

// realKernel is a fresh network namespace. The thread of the test stays in it
// and ends with the test.
func realKernel(t *testing.T) kernel {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	host := capture.Host{StateDir: t.TempDir(), ProcSys: "/proc/sys"}
	open := func(kernel *plan.Kernel) Capture {
		cfg := plan.Default()
		cfg.Kernel = kernel
		c, err := capture.New(cfg, host)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	flushed := func(name string) error {
		conn, err := nftables.New()
		must(t, err)
		conn.DelTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: name})
		return conn.Flush()
	}
	return kernel{
		open:    func() Capture { return open(nil) },
		paths:   func() Capture { return open(&plan.Kernel{}) },
		inForce: func() (nodetest.Rules, bool) { return readKernel(t) },
		flush: func() {
			must(t, flushed(rules.Name))
			_ = flushed(rules.KernelName) // it may be off
		},
		flushPath: func() { must(t, flushed(rules.KernelName)) },
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// readKernel reads the sets for IPv4 of the table.
func readKernel(t *testing.T) (r nodetest.Rules, there bool) {
	t.Helper()
	conn, err := nftables.New()
	must(t, err)
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	must(t, err)
	i := slices.IndexFunc(tables, func(t *nftables.Table) bool { return t.Name == rules.Name })
	if i < 0 {
		return r, false
	}
	elements := func(set string) []nftables.SetElement {
		s, err := conn.GetSetByName(tables[i], set)
		must(t, err)
		list, err := conn.GetSetElements(s)
		must(t, err)
		return list
	}
	for _, e := range elements("serve4") { // address, protocol, port; each padded to 4 bytes
		addr, _ := netip.AddrFromSlice(e.Key[:4])
		r.Serve = append(r.Serve, topology.Frontend{Addr: addr, Protocol: topology.Protocol(e.Key[4]), Port: binary.BigEndian.Uint16(e.Key[8:])})
	}
	slices.SortFunc(r.Serve, topology.Frontend.Compare)
	if slices.ContainsFunc(tables, func(t *nftables.Table) bool { return t.Name == rules.KernelName }) {
		front, err := nft.ReadMap(rules.KernelName, "front4")
		must(t, err)
		for _, e := range front {
			addr, _ := netip.AddrFromSlice(e.Key[:4])
			r.Kernel = append(r.Kernel, topology.Frontend{Addr: addr, Protocol: topology.Protocol(e.Key[4]), Port: binary.BigEndian.Uint16(e.Key[8:])})
		}
		slices.SortFunc(r.Kernel, topology.Frontend.Compare)
		r.Absent = len(elements(rules.Absent)) > 0
	}
	r.Guard, r.Pods = intervals(elements("guard4")), intervals(elements("pods4"))
	return r, true
}

// intervals turns the elements of an interval set, beginnings and ends, into prefixes.
func intervals(list []nftables.SetElement) (prefixes []netip.Prefix) {
	slices.SortFunc(list, func(a, b nftables.SetElement) int { return slices.Compare(a.Key, b.Key) })
	for i, e := range list {
		if e.IntervalEnd {
			continue
		}
		// The end of one may be the beginning of the next.
		end := i + slices.IndexFunc(list[i:], func(o nftables.SetElement) bool { return slices.Compare(o.Key, e.Key) > 0 })
		addr, _ := netip.AddrFromSlice(e.Key)
		size := binary.BigEndian.Uint32(list[end].Key) - binary.BigEndian.Uint32(e.Key)
		prefixes = append(prefixes, netip.PrefixFrom(addr, bits.LeadingZeros32(size-1)))
	}
	return prefixes
}

// captureContract is what the loop relies on.
func captureContract(t *testing.T, make func(*testing.T) kernel) {
	for name, run := range map[string]func(*testing.T, kernel){
		"nothing is written before Install":              nothingBeforeInstall,
		"a run before stays in force":                    runBeforeStays,
		"Retract removes and Extend adds":                retractRemoves,
		"a provisional view only adds":                   provisionalAdds,
		"Repair puts back what others removed":           repairPutsBack,
		"what failed is whole at the next attempt":       failedIsWholeNext,
		"pod CIDRs may come late":                        podCIDRsComeLate,
		"pods of a run before stay until asked for":      podsOfRunBeforeStay,
		"Remove leaves no trace":                         removeLeavesNothing,
		"a start that fails leaves what it found":        failedStart,
		"no connection is stale where there are none":    nothingIsStale,
		"Extend without anything to add changes nothing": extendTwice,
		"the kernel path follows views":                  kernelFollows,
		"what the kernel does not take stays with Envoy": kernelFails,
		"the kernel path serves while Envoy is absent":   kernelServes,
		"a kernel path that fails holds up no other":     kernelFailsAlone,
		"a kernel path that fails at first does neither": kernelFailsAtFirst,
		"the agent's own moves are no repairs":           ownMoves,
		"where there is no kernel path it is nothing":    kernelIsOff,
		"other ranges of flags are guarded":              otherRanges,
	} {
		t.Run(name, func(t *testing.T) { run(t, make(t)) })
	}
}

// view is what node a-1 sees of Services, by the last byte of their address.
func view(services ...string) *topology.View {
	o := nodetest.NewObjects()
	for _, n := range services {
		o.Closed("s"+n, "10.96.0."+n, map[string]string{"a-2": "10.244.2." + n})
	}
	return topology.See(o.Snapshot(), "a-1", topology.Options{})
}

func (k kernel) wantServed(t *testing.T, when string, services ...string) {
	t.Helper()
	rules, _ := k.inForce()
	var got, want []string
	for _, f := range rules.Serve {
		got = append(got, f.String())
	}
	for _, n := range services {
		want = append(want, "10.96.0."+n+":80/tcp")
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: serves %v, want %v", when, got, want)
	}
}

// installed is a capture whose guard is in force.
func (k kernel) installed(t *testing.T) Capture {
	t.Helper()
	c := k.open()
	must(t, c.Install([]netip.Prefix{serviceRange}))
	return c
}

func apply(t *testing.T, c Capture, v *topology.View, provisional bool) {
	t.Helper()
	must(t, c.Retract(v, provisional))
	must(t, c.Extend())
}

func nothingBeforeInstall(t *testing.T, k kernel) {
	c := k.open()
	must(t, c.SetPodCIDRs(prefixes("10.244.1.0/24")))
	earlier, err := c.Earlier()
	must(t, err)
	if _, there := k.inForce(); there || earlier.Rules {
		t.Errorf("something is in force before Install, or earlier: %+v", earlier)
	}
	must(t, c.Install(prefixes("10.96.0.0/16", "10.97.0.0/24")))
	rules, _ := k.inForce()
	if !slices.Equal(rules.Guard, prefixes("10.96.0.0/16", "10.97.0.0/24")) || !slices.Equal(rules.Pods, prefixes("10.244.1.0/24")) || len(rules.Serve) > 0 {
		t.Errorf("in force: %+v", rules)
	}
	if c.Found() {
		t.Error("rules of a run before were found where there was none")
	}
	if c.Pods() != "routed" {
		t.Errorf("pods are %q", c.Pods())
	}
}

func runBeforeStays(t *testing.T, k kernel) {
	apply(t, k.installed(t), view("10", "11"), false)
	next := k.open()
	must(t, next.Install(prefixes("10.97.0.0/24")))
	if !next.Found() {
		t.Error("the rules of the run before were not found")
	}
	k.wantServed(t, "installed again", "10", "11")
	rules, _ := k.inForce()
	if !slices.Equal(rules.Guard, []netip.Prefix{serviceRange, netip.MustParsePrefix("10.97.0.0/24")}) {
		t.Errorf("the guard of the run before became %v, and the new range is to be in it", rules.Guard)
	}
	apply(t, next, view("11"), false)
	k.wantServed(t, "the first whole view", "11")
}

func podsOfRunBeforeStay(t *testing.T, k kernel) {
	first := k.open()
	must(t, first.SetPodCIDRs(prefixes("10.244.1.0/24")))
	must(t, first.Install([]netip.Prefix{serviceRange}))
	next := k.open()
	for _, when := range []string{"before", "after"} {
		earlier, err := next.Earlier()
		must(t, err)
		if !earlier.Rules || !slices.Equal(earlier.Pods, prefixes("10.244.1.0/24")) || !slices.Equal(earlier.Guard, []netip.Prefix{serviceRange}) {
			t.Errorf("%s Install: earlier is %+v", when, earlier)
		}
		if when == "before" {
			must(t, next.Install([]netip.Prefix{serviceRange})) // which knows of no pods
		}
	}
	if rules, _ := k.inForce(); !slices.Equal(rules.Pods, prefixes("10.244.1.0/24")) {
		t.Errorf("pods of the run before became %v", rules.Pods)
	}
	if !next.Due() {
		t.Error("rules of the run before are not due to be written anew")
	}
	must(t, next.SetPodCIDRs(prefixes("10.244.2.0/24")))
	if next.Due() {
		t.Error("the rules are due to be written anew once the pods are known")
	}
	if rules, _ := k.inForce(); !slices.Equal(rules.Pods, prefixes("10.244.2.0/24")) {
		t.Errorf("pods in force: %v", rules.Pods)
	}
}

func removeLeavesNothing(t *testing.T, k kernel) {
	c := k.installed(t)
	apply(t, c, view("10"), false)
	must(t, c.Remove())
	if rules, there := k.inForce(); there {
		t.Errorf("in force after Remove: %+v", rules)
	}
	must(t, c.Remove()) // again is no error
	apply(t, k.installed(t), view("11"), false)
	k.wantServed(t, "installed again", "11")
}

func retractRemoves(t *testing.T, k kernel) {
	c := k.installed(t)
	apply(t, c, view("10", "11"), false)
	k.wantServed(t, "first", "10", "11")
	must(t, c.Retract(view("11", "12"), false))
	k.wantServed(t, "retracted", "11")
	if handed := c.Handed(); len(handed) != 1 || handed[0].String() != "10.96.0.12:80/tcp" {
		t.Errorf("Extend hands Envoy %v", handed)
	}
	must(t, c.Extend())
	k.wantServed(t, "extended", "11", "12")
}

func provisionalAdds(t *testing.T, k kernel) {
	apply(t, k.installed(t), view("10"), false)
	c := k.installed(t)
	apply(t, c, view("11"), true)
	k.wantServed(t, "provisional", "10", "11")
	k.flush()
	if repaired, err := c.Repair(); !repaired || err != nil {
		t.Errorf("flushed: repaired %v, %v", repaired, err)
	}
	k.wantServed(t, "flushed", "10", "11")
	apply(t, c, view("12"), true)
	k.wantServed(t, "provisional again", "10", "11", "12")
	apply(t, c, view("12"), false)
	k.wantServed(t, "whole", "12")
}

func repairPutsBack(t *testing.T, k kernel) {
	c := k.installed(t)
	apply(t, c, view("10"), false)
	repaired := func(when string, want bool) {
		t.Helper()
		got, err := c.Repair()
		must(t, err)
		if got != want {
			t.Errorf("%s: repaired %v, want %v", when, got, want)
		}
	}
	repaired("nothing is wrong", false)
	k.flush()
	repaired("flushed", true)
	k.wantServed(t, "flushed", "10")
	repaired("repaired", false)
	if changed, err := c.RefreshBridges(); changed || err != nil {
		t.Errorf("bridges changed where there are none: %v, %v", changed, err)
	}
}

func failedIsWholeNext(t *testing.T, k kernel) {
	c := k.installed(t)
	apply(t, c, view("10", "11"), false)
	k.flush()
	if err := c.Retract(view("11", "12"), false); err == nil {
		t.Fatal("what is not there was changed")
	}
	if _, err := c.Repair(); err != nil {
		t.Fatal(err)
	}
	apply(t, c, view("11", "12"), false)
	k.wantServed(t, "tried again", "11", "12")
}

func podCIDRsComeLate(t *testing.T, k kernel) {
	c := k.installed(t)
	apply(t, c, view("10"), false)
	must(t, c.SetPodCIDRs(prefixes("10.244.1.0/24")))
	rules, _ := k.inForce()
	if !slices.Equal(rules.Pods, prefixes("10.244.1.0/24")) || !slices.Equal(rules.Guard, []netip.Prefix{serviceRange}) {
		t.Errorf("in force: %+v", rules)
	}
	k.wantServed(t, "pod CIDRs came", "10")
	apply(t, c, view("11"), false)
	k.wantServed(t, "and then a view", "11")
}

func nothingIsStale(t *testing.T, k kernel) {
	c := k.installed(t)
	apply(t, c, view("10"), false)
	n, err := c.CloseStale(func(netip.AddrPort, netip.AddrPort) topology.Access { return topology.AccessDenied })
	if n != 0 || err != nil {
		t.Errorf("closed %d, %v", n, err)
	}
}

func extendTwice(t *testing.T, k kernel) {
	c := k.installed(t)
	apply(t, c, view("10"), false)
	must(t, c.Extend())
	apply(t, c, view("10"), false)
	k.wantServed(t, "the same once more", "10")
}
