package node

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/nodetest"
)

// withOther is a snapshot with or without the Service "other", which Envoy is handed each time that it comes.
func withOther(with bool) *nodetest.Objects {
	if with {
		return webAndOther()
	}
	return webOnly()
}

// An Envoy that does not answer gets its connections all the same, says so, and holds up the loop for a fifth of all time
// at most; one that is absent is not waited for.
func TestEnvoyThatDoesNotAnswerIsHanded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, envoy := openRig(t)
		r.xds.Slow(true)
		began := time.Now()
		const rounds = 60
		for i := range rounds {
			r.publish(withOther(i%2 == 0))
			after(2 * takenWithin)
			if i%2 == 0 {
				r.wantServed(t, "handed all the same", webFrontend, otherFrontend)
			}
		}
		waited := r.xds.Waited()
		if most := time.Since(began)/takenShare + takenWithin; waited > most || waited < takenWithin {
			t.Errorf("waited %s of %s, want %s at most", waited, time.Since(began), most)
		}
		if n := r.metric(t, "gridmesh_envoy_handings_unanswered_total"); n < rounds/2 {
			t.Errorf("%v handings were unanswered", n)
		}
		if !strings.Contains(r.log.String(), "Envoy has not answered what it was told of clusters") {
			t.Errorf("the log does not say so: %s", r.log.String())
		}
		r.publish(webOnly())
		envoy.Store(itIsAbsent)
		after(2 * askServesEvery)
		r.journal.Take()
		r.publish(webAndOther())
		if did := r.journal.Take(); slices.ContainsFunc(did, func(d string) bool { return strings.HasPrefix(d, "Await") }) || len(did) == 0 {
			t.Errorf("Envoy is absent: %v", did)
		}
	})
}
