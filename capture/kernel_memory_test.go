package capture

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// forge sends a datagram of UDP from each of so many addresses that nobody has.
func forge(t *testing.T, from *testkit.Network, to netip.AddrPort, n int) {
	t.Helper()
	must(t, from.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for i := range n {
			src := [4]byte{198, 18, byte(i >> 8), byte(i)}
			if i >= 1<<16 {
				src[1]++
			}
			b := []byte{0x45, 0, 0, 29, 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0} // the kernel sums up
			b = append(append(b, src[:]...), to.Addr().AsSlice()...)
			b = binary.BigEndian.AppendUint16(b, 999)
			b = binary.BigEndian.AppendUint16(b, to.Port())
			b = append(b, 0, 9, 0, 0, 'x')
			if err := unix.Sendto(fd, b, 0, &unix.SockaddrInet4{Addr: to.Addr().As4()}); err != nil {
				return err
			}
		}
		return nil
	}))
}

// Whoever fills the memory of one Service, with forged sources, ends no affinity but that
// of new clients of this Service, and it is told.
func TestAFullMemoryIsNobodyElses(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "b", l.b)
	l.serve(t, "far", l.far)
	both := tiers(false, "b", "far")
	for service, list := range map[string][]plan.KernelFrontend{
		"crowd/web": {{Frontend: tcp("10.96.0.1:80"), Tiers: both}, {Frontend: udp("10.96.0.1:80"), Tiers: both}},
		"calm/web":  {{Frontend: tcp("10.96.0.2:80"), Tiers: both}},
	} {
		must(t, l.setKernel(map[string][]plan.KernelFrontend{service: sticky(service, time.Hour, list)}, false))
	}
	kept := map[string]string{}
	for _, to := range []string{"10.96.0.1:80", "10.96.0.2:80"} {
		kept[to], _ = once(t, l.a, "", to)
	}
	var memory plan.Memory
	plans, _ := l.kernel.planner.Plan()
	for _, f := range plans.Fronts {
		if f.Frontend == tcp("10.96.0.1:80") {
			memory, _ = f.Pick.Memory()
		}
	}
	forge(t, l.outside, netip.MustParseAddrPort("10.96.0.1:80"), 2*memory.Clients())
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		held := map[string]int{}
		for _, name := range l.memories(t) {
			list, err := nft.ReadMap(rules.KernelName, name)
			must(t, err)
			held[name] = len(list)
		}
		if held[rules.MemoryName(memory)] == memory.Clients() {
			t.Logf("remembered are %v", held)
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("remembered are %v", held)
		}
	}
	for to, name := range kept {
		for range 20 {
			if got, _ := once(t, l.a, "", to); got != name {
				t.Errorf("%s: a client that is known gets %s, and had %s", to, got, name)
			}
		}
	}
	answers := func(to string) map[string]bool {
		seen := map[string]bool{}
		for range 40 {
			name, _ := once(t, l.outside, "", to)
			seen[name] = true
		}
		return seen
	}
	if seen := answers("10.96.0.2:80"); len(seen) != 1 || !seen["b"] && !seen["far"] {
		t.Errorf("a new client of another Service gets %v", seen)
	}
	if seen := answers("10.96.0.1:80"); !seen["b"] || !seen["far"] || len(seen) != 2 {
		t.Errorf("a new client of the Service that is full gets %v", seen)
	}
	if repaired, err := l.Repair(); repaired || err != nil {
		t.Errorf("repaired %v, %v", repaired, err)
	}
	list := l.own.all()
	if len(list) != 1 || list[0].Kind != AffinityFull || !strings.Contains(list[0].Text, "Service crowd/web than") {
		t.Errorf("found %v", list)
	}
}

// A memory counts as full until it has had room for a while, whatever chains come and go.
func TestWhenAMemoryIsFull(t *testing.T) {
	p := plan.Pick{Among: 2, Sticky: 1, Session: 7}
	other := p
	other.Among = 3
	f, now := fullness{}, time.Unix(1e9, 0)
	for _, step := range []struct {
		counted map[plan.Pick]uint32
		after   time.Duration
		want    int
	}{
		{map[plan.Pick]uint32{p: 0}, 0, 0},
		{map[plan.Pick]uint32{p: 5}, time.Minute, 1},
		{map[plan.Pick]uint32{p: 5}, fullFor - time.Second, 1},
		{map[plan.Pick]uint32{other: 1}, time.Minute, 1},
		{map[plan.Pick]uint32{other: 1}, fullFor - time.Second, 1},
		{map[plan.Pick]uint32{other: 1}, time.Second, 0},
		{map[plan.Pick]uint32{other: 0}, time.Second, 0},
	} {
		now = now.Add(step.after)
		if got := f.note(step.counted, false, now); len(got) != step.want {
			t.Errorf("%v: full are %v, want %d", step.counted, got, step.want)
		}
	}
}

// What a torn list lacks, wholly or in part, has counted nothing when it is told again; what counts in it is told.
func TestATornListFillsNoMemory(t *testing.T) {
	p, q := plan.Pick{Among: 2, Sticky: 1, Session: 7}, plan.Pick{Among: 2, Sticky: 1, Session: 8}
	f, now := fullness{}, time.Unix(1e9, 0)
	for _, step := range []struct {
		counted map[plan.Pick]uint32
		torn    bool
		after   time.Duration
		want    int
	}{
		{map[plan.Pick]uint32{p: 5}, false, 0, 1},
		{map[plan.Pick]uint32{p: 5}, false, fullFor + time.Minute, 0},
		{map[plan.Pick]uint32{}, true, fullEvery, 0},
		{map[plan.Pick]uint32{p: 3}, true, fullEvery, 0},
		{map[plan.Pick]uint32{}, true, fullEvery, 0},
		{map[plan.Pick]uint32{p: 5}, false, fullEvery, 0},
		{map[plan.Pick]uint32{q: 1}, true, fullEvery, 1},
		{map[plan.Pick]uint32{p: 5, q: 1}, false, fullFor, 0},
		{map[plan.Pick]uint32{p: 6}, true, fullEvery, 1},
	} {
		now = now.Add(step.after)
		if got := f.note(step.counted, step.torn, now); len(got) != step.want {
			t.Errorf("%v, torn %t: full are %v, want %d", step.counted, step.torn, got, step.want)
		}
	}
}

// More Services with affinity than there is room for are told, and end.
func TestAffinityBeyondItsShare(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	c := starting(t, kernelConfig(), testHost(t))
	all := map[string][]plan.KernelFrontend{}
	for i := range 257 {
		service := fmt.Sprintf("large/%03d", i)
		f := sticky(service, time.Hour, benchService(i, 2, 0))
		f[0].Crowd = plan.CrowdAnywhere
		all[service] = f
	}
	must(t, c.setKernel(all, false))
	check := func(when string, want int) {
		t.Helper()
		if repaired, err := c.Repair(); repaired || err != nil {
			t.Errorf("%s: repaired %v, %v", when, repaired, err)
		}
		list := c.own.all()
		if len(list) != want || want == 1 && (list[0].Kind != AffinityShare || !strings.Contains(list[0].Text, "namespace large want")) {
			t.Errorf("%s: found %v", when, list)
		}
	}
	check("one too many", 1)
	must(t, c.setKernel(map[string][]plan.KernelFrontend{"large/000": nil}, false))
	check("one went", 0)
}
