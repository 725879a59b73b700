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
	"github.com/gridmesh/gridmesh/source"
)

// otherRanges are guarded in place of those that a capture was made with, whatever views come.
func otherRanges(t *testing.T, k kernel) {
	c := k.open()
	must(t, c.SetServiceCIDRs(prefixes("10.99.0.0/16")))
	must(t, c.SetServiceCIDRs(prefixes("10.98.0.0/16")))
	if _, there := k.inForce(); there {
		t.Error("something is in force before Install")
	}
	must(t, c.Install(nil))
	guarded := func(when string, want ...string) {
		t.Helper()
		if rules, _ := k.inForce(); !slices.Equal(rules.Guard, prefixes(want...)) {
			t.Errorf("%s: guarded is %v, want %v", when, rules.Guard, want)
		}
	}
	guarded("installed", "10.98.0.0/16")
	apply(t, c, view("1"), false)
	guarded("with a view", "10.96.0.0/16", "10.98.0.0/16")
}

// wrongRange is a flag in which this node's own network is, and the pods that a run before knew.
var (
	wrongRange = prefixes("10.200.0.0/16")
	wrongHost  = []capture.Network{{Prefix: netip.MustParsePrefix("10.200.3.0/24"), Link: "eth0"}}
)

// servedBefore is a node that was served with the right range, and whose agent has ended.
func servedBefore(t *testing.T, r *rig) {
	t.Helper()
	r.mustStart(t)
	r.publish(webOnly())
	r.stop()
	r.again()
}

// boots is a boot: the rules are gone, the state is not.
func (r *rig) boots() {
	r.kernel = &nodetest.Kernel{}
	r.again()
}

// A range that was refused beside the rules of a run before is refused after a boot, too, where there are none:
// the node serves, and what was guarded is guarded still. It would be cut off.
func TestARefusedRangeStaysRefusedAfterABoot(t *testing.T) {
	for name, set := range map[string]func(r *rig){
		"the network of the node": func(r *rig) { r.host = wrongHost },
		"pods of the node":        func(r *rig) { r.api.Pods = prefixes("10.200.1.0/24") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.api = &nodetest.API{Pods: prefixes("10.244.1.0/24")}
				set(r)
				servedBefore(t, r)
				right := r.cfg.ServiceCIDRs
				r.cfg.ServiceCIDRs = wrongRange
				if err := r.start(t); !errors.Is(err, ErrUnfit) {
					t.Errorf("on a running node: %v", err)
				}
				for range 2 { // and it is kept for the next one
					r.boots()
					r.mustStart(t)
					r.wantServed(t, "after a boot", webFrontend)
					guarded(t, r, serviceRange)
					r.publish(webOnly())
					guarded(t, r, serviceRange)
					after(2 * inspectEvery)
					const want = "--service-cidr 10.200.0.0/16 is not in force: this node's own networks, pods or API server are in it, and it would be cut off; 10.96.0.0/16, which was before, is; give --service-cidr"
					if got := r.agent.status().Findings; len(got) != 1 || !strings.HasPrefix(got[0].Text, want) || r.log.Count(want) != 1 || r.log.Count("is refused") != 0 {
						t.Errorf("found %v: %s", got, r.log.String())
					}
					r.stop()
				}
				r.again()
				if err := r.start(t); !errors.Is(err, ErrUnfit) {
					t.Errorf("on a node that runs again: %v", err)
				}
				r.again()
				r.cfg.ServiceCIDRs = right
				r.mustStart(t)
				after(2 * inspectEvery)
				if got := r.agent.status().Findings; len(got) != 0 {
					t.Errorf("with the right flag there is still %v", got)
				}
			})
		})
	}
}

func guarded(t *testing.T, r *rig, want ...netip.Prefix) {
	t.Helper()
	if rules, _ := r.kernel.InForce(); !slices.Equal(rules.Guard, want) {
		t.Errorf("guarded is %v, want %v", rules.Guard, want)
	}
}

// What a run before guarded is no other after a boot, though the node came into it since; and where nobody knows
// what it guarded, the flag counts. Both are told as what cuts the node off.
func TestARangeThatIsNotRefusedAfterABoot(t *testing.T) {
	for name, tc := range map[string]struct {
		flag []netip.Prefix
		read func(path string) (*source.State, error)
	}{
		"guarded before": {prefixes("10.96.0.0/17"), nil},
		"a state of a version before": {wrongRange, func(path string) (*source.State, error) {
			st, err := source.ReadState(path)
			if st != nil {
				st.Ranges = nil
			}
			return st, err
		}},
		"a state that cannot be read": {wrongRange, func(string) (*source.State, error) { return nil, source.ErrUnread }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				servedBefore(t, r)
				r.boots()
				r.cfg.ServiceCIDRs, r.readState = tc.flag, tc.read
				r.host = append([]capture.Network{{Prefix: netip.MustParsePrefix("10.96.3.0/24"), Link: "eth1"}}, wrongHost...)
				r.mustStart(t)
				if rules, _ := r.kernel.InForce(); !slices.ContainsFunc(rules.Guard, tc.flag[0].Overlaps) {
					t.Errorf("guarded is %v", rules.Guard)
				}
				if got := r.agent.status().Findings; len(got) == 0 || !strings.Contains(got[0].Text, "the network of eth") || r.log.Count("is not in force") != 0 {
					t.Errorf("found %v: %s", got, r.log.String())
				}
				after(2 * inspectEvery)
			})
		})
	}
}

// A state that is damaged is none: the node starts with a wrong flag no more than at its first start.
func TestAWrongRangeBesideADamagedState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		servedBefore(t, r)
		must(t, os.Truncate(filepath.Join(r.cfg.StateDir, source.StateFile), 0))
		r.cfg.ServiceCIDRs, r.host = wrongRange, wrongHost
		for range 2 {
			r.boots()
			if err := r.start(t); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "--service-cidr 10.200.0.0/16 overlaps 10.200.3.0/24") {
				t.Errorf("got %v", err)
			}
		}
	})
}

// A run before without the flag guarded none of its ranges: so does the next one, where they are wrong.
func TestARefusedRangeWhereNoneWasBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cfg.ServiceCIDRs, r.host = nil, wrongHost
		servedBefore(t, r)
		r.boots()
		r.cfg.ServiceCIDRs = wrongRange
		r.mustStart(t)
		guarded(t, r, serviceRange) // the cluster's
		after(2 * inspectEvery)
		if r.log.Count("no range of the flag is, as before") != 1 {
			t.Errorf("%s", r.log.String())
		}
	})
}

// A wrong range that is in force because the disk said too late what was before is not noted as right: the next boot
// refuses it.
func TestAWrongRangeInForceIsNotWhatWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		servedBefore(t, r)
		r.boots()
		r.cfg.ServiceCIDRs, r.host = wrongRange, wrongHost
		r.readState = func(path string) (*source.State, error) {
			time.Sleep(2 * time.Second)
			return source.ReadState(path)
		}
		r.mustStart(t)
		if rules, _ := r.kernel.InForce(); !slices.ContainsFunc(rules.Guard, wrongRange[0].Overlaps) {
			t.Errorf("guarded is %v, before anybody knows better", rules.Guard)
		}
		r.publish(webAndOther())
		after(time.Hour)
		if st := r.saved(t); st == nil || st.Snapshot.Services.Len() != 2 || st.Ranges == nil || !slices.Equal(*st.Ranges, []netip.Prefix{serviceRange}) {
			t.Errorf("saved is %+v", st)
		}
		r.stop()
		r.readState = nil
		r.boots()
		r.mustStart(t)
		guarded(t, r, serviceRange)
		r.wantServed(t, "the next boot", webFrontend, otherFrontend)
	})
}
