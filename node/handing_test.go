package node

import (
	"fmt"
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

// An Envoy that does not answer gets its connections all the same, says so, and holds up the loop for a part of all time
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
		if most := time.Since(began)/(2*takenShare) + takenWithin; waited > most || waited < takenWithin {
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

// Where the kernel path takes no write, Envoy is handed what it serves more, and that is waited for as it is elsewhere.
func TestEnvoyIsAwaitedWithoutTheKernelPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := openRig(t)
		r.capture.Fail("kernel", errBroken)
		r.journal.Take()
		r.publish(webAndOther())
		r.wantJournal(t, "the kernel path fails", "Retract", "kernel", "Update", "Await("+webCluster+","+otherCluster+")", "Extend")
	})
}

// Whose endpoints come and go all the time, before an Envoy that is slow, has that waited for half of the time that there is: of
// another namespace what comes is waited for all the same. All together have no more than there is.
func TestOneNamespaceDoesNotTakeAllOfTheWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := openRig(t)
		r.xds.Slow(true)
		flap := func(others int, with bool) *nodetest.Objects {
			o := webOnly()
			for i := range others {
				if with {
					o.Closed(fmt.Sprintf("noisy-%d/x", i), fmt.Sprintf("10.96.1.%d", 1+i), map[string]string{"a-2": "10.244.2.7"})
				}
			}
			return o
		}
		rounds := func(others int) (share float64) {
			began, before := time.Now(), r.xds.Waited()
			for i := range 2000 {
				r.publish(flap(others, i%2 == 0))
				after(25 * time.Millisecond)
			}
			return float64(r.xds.Waited()-before-2*takenWithin) / float64(time.Since(began))
		}
		if share := rounds(1); share > 1./(2*takenShare) {
			t.Errorf("one namespace had %.3f of all time waited for it", share)
		}
		noisy := flap(1, true)
		r.journal.Take()
		before := r.xds.Waited()
		noisy.Closed("other", "10.96.0.11", map[string]string{"a-2": "10.244.2.6"})
		r.publish(noisy)
		after(2 * takenWithin)
		if did := r.journal.Take(); !slices.ContainsFunc(did, func(d string) bool { return strings.HasPrefix(d, "Await(") && strings.Contains(d, "10.96.0.11:80") }) {
			t.Errorf("another namespace's is not waited for: %v", did)
		}
		if waited := r.xds.Waited() - before; waited != takenWithin {
			t.Errorf("another namespace's is waited for %s", waited)
		}
		if share := rounds(4); share > 1./takenShare {
			t.Errorf("four namespaces had %.3f of all time waited for them", share)
		}
	})
}
