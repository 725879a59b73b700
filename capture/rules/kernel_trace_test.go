package rules

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/topology"
)

// loopState is a frontend that the kernel path serves with these endpoints, of which pods of
// this node may meet themselves.
func loopState(f topology.Frontend, pods ...netip.Addr) *KernelState {
	pick, k := plan.Pick{Among: len(pods)}, &KernelState{}
	k.Picks = []plan.Pick{pick}
	k.Fronts = []plan.Front{{Frontend: f, Pick: pick}}
	for i, pod := range pods {
		k.Slots = append(k.Slots, plan.Slot{Frontend: f, Number: First(pick) + uint32(i), Endpoint: netip.AddrPortFrom(pod, 8080)})
		k.Loops = append(k.Loops, pod)
	}
	return k
}

// A pod that may meet itself has its source changed on the way to itself alone, wherever
// among the endpoints it stands.
func TestAPodThatMayMeetItself(t *testing.T) {
	web, third := frontend("10.96.0.9:80", topology.TCP), netip.MustParseAddr("10.244.0.3")
	keeps := func(pod netip.Addr) string { return fmt.Sprintf("%s is a pod of this node: its address is kept", pod) }
	itself := func(pod netip.Addr) string {
		return fmt.Sprintf("to %s:8080, which is the client itself, its source becomes an address of this node", pod)
	}
	const changed = "its source becomes an address of this node"
	for name, tc := range map[string]struct {
		client netip.Addr
		ends   []netip.Addr
		want   []string
	}{
		"the first":        {podV4, []netip.Addr{podV4, otherPod, third}, []string{keeps(podV4), itself(podV4)}},
		"the last":         {third, []netip.Addr{podV4, otherPod, third}, []string{keeps(third), itself(third)}},
		"alone":            {podV4, []netip.Addr{podV4}, []string{itself(podV4)}},
		"none of them":     {third, []netip.Addr{podV4, otherPod}, []string{keeps(third)}},
		"no pod of a node": {elsewhere, []netip.Addr{podV4, otherPod}, []string{changed}},
	} {
		cfg := behind()
		got := Trace(cfg, example(cfg), loopState(web, tc.ends...), Question{Client: tc.client, To: web, Listens: func(topology.Frontend) bool { return false }})
		i := slices.IndexFunc(got.Steps, func(s string) bool { return strings.Contains(s, "is translated to one of") })
		if got.Fate != ToEnd || i < 0 || !slices.Equal(got.Steps[i+1:], tc.want) {
			t.Errorf("%s: %s, %q, want it to end with %q", name, got.Fate, got.Steps, tc.want)
		}
		if kept := tc.client != elsewhere && name != "alone"; got.KeepsSrc != kept {
			t.Errorf("%s: the source is kept: %v", name, got.KeepsSrc)
		}
	}
}
