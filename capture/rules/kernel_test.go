package rules

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/topology"
)

func behind() plan.Config {
	c := config()
	c.Kernel = &plan.Kernel{}
	return c
}

// What the capture leaves to the kernel path goes on without its mark. The table
// of the capture alone refuses it then, where it is addressed to a Service.
func TestCaptureLeavesToTheKernel(t *testing.T) {
	web, webV6 := frontend("10.96.0.1:80", topology.TCP), frontend("[fd00::1]:80", topology.TCP)
	podV6, hostV6 := netip.MustParseAddr("fd00:244::1"), netip.MustParseAddr("fd00:20::1")
	for name, tc := range map[string]struct {
		packet Packet
		fate   Fate
	}{
		"Envoy is there":                {Packet{Src: podV4, To: web}, ToEnvoy},
		"the host, Envoy is there":      {Packet{Src: hostV4, To: web, Local: true}, ToEnvoy},
		"nobody listens":                {Packet{Src: podV4, To: web, NoListen: true}, Refused},
		"the host, nobody listens":      {Packet{Src: hostV4, To: web, Local: true, NoListen: true}, Refused},
		"absent":                        {Packet{Src: podV4, To: web, Absent: true}, Refused},
		"the host, absent":              {Packet{Src: hostV4, To: web, Local: true, Absent: true}, Refused},
		"open with Envoy, absent":       {Packet{Src: podV4, To: web, Absent: true, Tracked: true}, ToEnvoy},
		"the host, with Envoy, absent":  {Packet{Src: hostV4, To: web, Local: true, Absent: true, Tracked: true}, ToEnvoy},
		"tries again":                   {Packet{Src: podV4, To: web, Again: true}, ToEnvoy},
		"tries again, absent":           {Packet{Src: podV4, To: web, Absent: true, Again: true}, Dropped},
		"the host, again, absent":       {Packet{Src: hostV4, To: web, Local: true, Absent: true, Again: true}, Dropped},
		"IPv6, again, absent":           {Packet{Src: podV6, To: webV6, Absent: true, Again: true}, Dropped},
		"the host, IPv6, again, absent": {Packet{Src: hostV6, To: webV6, Local: true, Absent: true, Again: true}, Dropped},
		// Here its packets still have the frontend's address.
		"translated, again, absent":           {Packet{Src: podV4, To: web, Absent: true, Again: true, DNATed: true}, Refused},
		"the host, translated, again, absent": {Packet{Src: hostV4, To: web, Local: true, Absent: true, Again: true, DNATed: true}, Refused},
		"no Service's, again, absent":         {Packet{Src: podV4, To: frontend("192.0.2.77:80", topology.TCP), Absent: true, Again: true}, Passed},
		"the mark's route is gone":            {Packet{Src: podV4, To: web, Astray: true}, Refused},
		"its destination is translated":       {Packet{Src: podV4, To: frontend("192.0.2.1:80", topology.TCP), DNATed: true, Awaited: true}, Passed},
	} {
		got := Inet(behind()).Walk(example(behind()), tc.packet)
		if got.Fate != tc.fate {
			t.Errorf("%s: %s, want %s; rules: %v", name, got.Fate, tc.fate, got.Met)
		}
		byGuard := slices.ContainsFunc(got.Met, func(m Met) bool { return m.Chain == GuardForward })
		if got.Fate == Refused && got.Packet.Mark != 0 && byGuard {
			t.Errorf("%s: the guard sees mark %#x", name, got.Packet.Mark)
		}
	}
}

// Without a kernel path there is no trace of it.
func TestKernelOff(t *testing.T) {
	for _, cfg := range []plan.Config{config(), kept()} {
		text := Inet(cfg).String()
		for _, word := range []string{DNATed{}.String(), Confirmed{}.String(), InAbsent{}.String(), FromLo{}.String(), "set " + Absent} {
			if strings.Contains(text, word+"\n") || strings.Contains(text, word+" ") {
				t.Errorf("%q is among the rules", word)
			}
		}
	}
}

func TestPickNames(t *testing.T) {
	for _, p := range []plan.Pick{
		{Among: 1}, {Among: 10, IPv6: true}, {Among: 3, Near: true}, {Among: plan.NearSlot - 1, IPv6: true, Near: true, Sticky: 86400, Session: 1<<64 - 1, Many: true}, {Among: 2, Sticky: 1},
	} {
		name := PickName(p)
		if got, ok := ParsePick(name); !ok || got != p {
			t.Errorf("%s is %+v, %v; want %+v", name, got, ok, p)
		}
		m, has := p.Memory()
		if got, ok := ParseMemory(MemoryName(m)); has && (!ok || got != m) {
			t.Errorf("%s is %+v, %v; want %+v", MemoryName(m), got, ok, m)
		}
	}
	for _, name := range []string{"", "pick4", "pick4_", "pick4_0", "pick4_x", "pick4_01", "pick4_1_", "pick4_1_0s", "pick4_1_1", "pick4_65536", "near5_1", "pick4_-1", "refuse4", "pick4_1_1s_1", "pick4_1_1s", "pick4_1_1s_000000000000000M", "pick4_1_0s_0000000000000001"} {
		if p, ok := ParsePick(name); ok {
			t.Errorf("%s is taken for %+v", name, p)
		}
	}
	for _, name := range []string{"", "sticky4", "sticky4_", "sticky5_0000000000000001", "4_0000000000000001", "sticky4_0000000000000001x", "sticky4_1"} {
		if m, ok := ParseMemory(name); ok {
			t.Errorf("%s is taken for %+v", name, m)
		}
	}
	for pick, want := range map[plan.Pick]string{{}: "refuse4", {IPv6: true}: "refuse6", {Silent: true}: Withhold} {
		if got := PickName(pick); got != want {
			t.Errorf("%+v is %s, want %s", pick, got, want)
		}
	}
}
