package cloud

import (
	"testing"
	"time"
)

// hold has a node hold the unit's Lease for a while.
func (r *rig) hold(holder string, d time.Duration) {
	for range int(d / time.Second) {
		r.now = r.now.Add(time.Second)
		r.of["a"] = renewal{mark: holder + r.now.String(), holder: holder, taken: r.now}
		r.world.setLease(r.now, "a", r.of["a"], false)
		r.look(r.t.Context(), r.now)
		r.work.Wait()
	}
}

// Who speaks for a unit holds its Lease, or did until just now: that a node is dead, by another member,
// counts for nothing. So does what one says that held it long ago, as a machine that stood still.
func TestWhoSpeaksForAUnit(t *testing.T) {
	const says = "yes=0 no=2 of=3 exact=true cut=false view=x by="
	for _, tt := range []struct {
		by   string
		held time.Duration // by a-1, after a-2, when it is said
		more time.Duration // until it is decided
		want bool
	}{
		{"a-1", time.Minute, time.Minute, true},
		{"a-1", time.Second, time.Minute, true},
		{"a-2", 5 * time.Second, time.Minute, true},
		{"a-2", 0, time.Minute, true}, // which it says and lets go of the Lease
		{"a-2", 12 * time.Second, time.Minute, false},
		{"a-2", time.Hour, time.Minute, false},
		{"a-3", time.Second, time.Minute, false},
		{"", time.Second, time.Minute, false},
	} {
		r := newRig(t)
		r.hold("a-2", time.Minute)
		r.lose("a-3")
		r.hold("a-2", time.Second)
		if tt.held > 0 {
			r.hold("a-1", min(tt.held, 5*time.Second))
			r.hold("", min(tt.held, 2*time.Second)) // it lets go, as one that is updated
			r.hold("a-1", max(0, tt.held-7*time.Second))
		}
		r.say("a-3", "false", says+tt.by+" at=2026-01-02T03:04:05Z")
		r.hold("a-1", tt.more)
		if got := r.on.taints["a-3"] != nil; got != tt.want {
			t.Errorf("by %q, %s after the Lease was another's: given up: %v, want %v", tt.by, tt.held, got, tt.want)
		}
	}
}

// Where nobody holds the Lease, as far as who begins to look can know, nobody speaks for the unit.
func TestWhoSpeaksIsNotKnown(t *testing.T) {
	r := newRig(t)
	r.hold("a-1", time.Minute)
	r.lose("a-3")
	r.hold("a-1", time.Second)
	r.of["a"] = renewal{mark: "let go", taken: r.now}
	r = r.restart()
	r.hold("", 40*time.Second)
	r.say("a-3", "false", "yes=0 no=2 of=3 exact=true by=a-2")
	r.hold("", 20*time.Second)
	r.tainted("a-3", evicting, false)
	r.hold("a-2", 20*time.Second)
	r.tainted("a-3", evicting, true)
}
