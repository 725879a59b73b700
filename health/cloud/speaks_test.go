package cloud

import (
	"testing"
	"time"
)

// Who speaks for a unit holds its Lease, or did before who holds it now: that a node is dead, by another
// member, counts for nothing.
func TestWhoSpeaksForAUnit(t *testing.T) {
	const says = "yes=0 no=2 of=3 exact=true cut=false view=x by="
	for by, want := range map[string]bool{"a-1": true, "a-2": true, "a-3": false, "": false} {
		t.Run(by, func(t *testing.T) {
			r := newRig(t)
			hold := func(holder string) {
				for range 6 {
					r.now = r.now.Add(10 * time.Second)
					r.of["a"] = renewal{mark: holder + r.now.String(), holder: holder, taken: r.now}
					r.world.setLease(r.now, "a", r.of["a"], false)
					r.look(t.Context(), r.now)
					r.work.Wait()
				}
			}
			hold("a-2")
			hold("a-1")
			hold("") // it lets go, as one that is updated
			hold("a-1")
			r.lose("a-3")
			r.say("a-3", "false", says+by+" at=2026-01-02T03:04:05Z")
			hold("a-1")
			if got := r.on.taints["a-3"] != nil; got != want {
				t.Errorf("given up: %v, want %v", got, want)
			}
		})
	}
}
