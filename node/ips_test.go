package node

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/statedir"
)

// By which addresses the own Node says that it is known is told to the kernel path, also where
// --pod-cidr says which pods it has, and kept: a start without a cloud knows it before the rules
// are laid, or once a disk that is late has it.
func TestNodeIPsFollowTheNode(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.capture.WithKernelPath()
			r.cfg.PodCIDRs = prefixes("10.244.1.0/24")
			r.api = &nodetest.API{}
			r.mustStart(t)
			r.publish(webOnly())
			want := func(when, text string) {
				t.Helper()
				if got := fmt.Sprint(r.capture.IPs().Said); got != text {
					t.Errorf("%s: %s, want %s", when, got, text)
				}
			}
			want("it says none", "[]")
			ip := netip.MustParseAddr("192.0.2.1")
			r.api.Set(func(a *nodetest.API) { a.IPs = []netip.Addr{ip} })
			after(2 * podCIDRsEvery)
			want("it has one", "[192.0.2.1]")
			r.api.Set(func(a *nodetest.API) { a.Away = errBroken })
			after(2 * podCIDRsEvery)
			want("it cannot be asked", "[192.0.2.1]")
			after(2 * statedir.SaveInterval)
			r.stop()
			if got := r.saved(t).NodeIPs; !slices.Equal(got, []netip.Addr{ip}) {
				t.Errorf("kept are %v", got)
			}
			r.again()
			r.capture.WithKernelPath()
			r.api = &nodetest.API{Away: errBroken}
			if !late {
				r.mustStart(t)
				want("the next start", "[192.0.2.1]")
				return
			}
			giveState, giveNotes := r.hanging()
			giveNotes()
			r.mustStart(t)
			want("the disk is late", "[]")
			giveState()
			want("it is there", "[192.0.2.1]")
		})
	}
}

// What the kernel path finds itself is kept, too.
func TestHomesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.capture.WithKernelPath()
		r.mustStart(t)
		r.publish(webOnly())
		after(2 * statedir.SaveInterval)
		home := []netip.Addr{netip.MustParseAddr("10.99.0.1")}
		r.capture.RememberIPs(capture.IPs{Homes: home})
		after(2 * statedir.SaveInterval)
		if got := r.saved(t).Homes; !slices.Equal(got, home) {
			t.Errorf("kept are %v", got)
		}
	})
}

// A Node that cannot be asked is not one that has no podCIDRs: its cure is another.
func TestAnOwnNodeThatCannotBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Away: errBroken}
		r.mustStart(t)
		r.publish(webOnly())
		found := func(when, want string) {
			t.Helper()
			after(podlessFor + time.Minute)
			for _, f := range r.agent.status().Findings {
				if f.Kind == noPods && len(f.Text) > len(want) && f.Text[:len(want)] == want {
					return
				}
			}
			t.Errorf("%s: found %v", when, r.agent.status().Findings)
		}
		found("never", "the own Node cannot be asked")
		r.api.Set(func(a *nodetest.API) { a.Away = nil })
		found("it has none", "the own Node has no podCIDRs")
		r.api.Set(func(a *nodetest.API) { a.Away = errBroken })
		found("it had none when it was asked last", "the own Node has no podCIDRs")
	})
}
