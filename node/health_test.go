package node

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/source"
)

// Rules that cannot be put back are no health, and are tried again soon.
func TestHealthFollowsRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		r.publish(webOnly())
		r.kernel.Flush()
		r.capture.Fail("Repair", errBroken)
		after(repairEvery)
		r.wantHealthy(t, "not repaired", false)
		if got := r.agent.status().Error; got != errBroken.Error() {
			t.Errorf("the status says %q", got)
		}
		r.xds.Ask("10.96.0.10:80")
		synctest.Wait()
		r.wantHealthy(t, "not repaired, and asked", false)
		after(retryFirst)
		r.wantServed(t, "repaired", webFrontend)
		r.wantHealthy(t, "repaired", true)
	})
}

// While it fails it is tried again and again, with pauses that grow, but never
// beyond the usual one.
func TestRepairsThatFailAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		r.publish(webOnly())
		tries := 0
		for begin := time.Now(); time.Since(begin) < 30*time.Second; after(retryFirst / 2) {
			r.capture.Fail("Repair", errBroken)
			for _, what := range r.journal.Take() {
				if what == "Repair" {
					tries++
				}
			}
		}
		if tries < 9 || tries > 12 { // the first after 5 s, then 0.1, 0.2, … 5 s
			t.Errorf("%d tries in 30 s", tries)
		}
	})
}

// What changes in the kernel, a thousand times, makes nobody hurry for long: what
// fails is tried a few times at once, and then once a second, besides when it is due.
func TestDisturbancesAreNoRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cfg.CloseOnMove = true
		r.mustStart(t)
		r.publish(webOnly())
		after(repairEvery)
		r.journal.Take()
		r.links <- struct{}{}
		synctest.Wait()
		r.wantJournal(t, "a link changed", "RefreshBridges", "Repair")
		tries := 0
		for begin := time.Now(); time.Since(begin) < 30*time.Second; after(retryFirst / 10) {
			r.capture.Fail("Repair", errBroken)
			r.links <- struct{}{}
			synctest.Wait()
			for _, what := range r.journal.Take() {
				if what == "Repair" {
					tries++
				}
			}
		}
		if due, most := 9, eagerBurst+30+13; tries < due+30 || tries > most {
			t.Errorf("%d tries in 30 s, want up to %d", tries, most)
		}
		if n := r.log.Count("could not put the capture rules in order"); n != 1 {
			t.Errorf("said %d times", n)
		}
	})
}

// unrecorded is a capture that repairs all it can, and has something that it cannot:
// a sysctl that is not to be written, a record that no disk takes.
type unrecorded struct{ Capture }

func (u unrecorded) Repair() (bool, error) {
	repaired, err := u.Capture.Repair()
	return repaired, errors.Join(err, errBroken)
}

// An error that lasts keeps nobody from putting back at once what others remove,
// and is said for as long as it lasts.
func TestALastingErrorKeepsNoRuleAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.wrap = func(c Capture) Capture { return unrecorded{c} }
		r.mustStart(t)
		r.publish(webOnly())
		after(time.Minute)
		for range 10 {
			r.kernel.Flush()
			r.links <- struct{}{}
			synctest.Wait()
			r.wantServed(t, "removed while an error lasts", webFrontend)
			after(3 * eagerEvery)
		}
		if got := r.agent.status().Error; got != errBroken.Error() {
			t.Errorf("the status says %q", got)
		}
		r.wantHealthy(t, "with an error", false)
	})
}

// Provisional rules that somebody flushes are back with what they serve: there
// may be no cloud for days.
func TestProvisionalRulesComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.runBefore(t)
		r.mustStart(t)
		after(liveFirst)
		r.wantServed(t, "from the state", webFrontend)
		r.kernel.Flush()
		after(repairEvery)
		r.wantServed(t, "repaired", webFrontend)
		r.wantHealthy(t, "repaired", true)
	})
}

// Without a view nothing but the guard can be put back, and no more is said.
func TestWhatComesBackIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.runBefore(t)
		must(t, os.Remove(filepath.Join(r.cfg.StateDir, source.StateFile)))
		r.mustStart(t)
		after(repairEvery)
		r.kernel.Flush()
		after(repairEvery)
		if all, guard := r.log.Count("and are back"), r.log.Count("the guard is back"); all != 0 || guard != 1 {
			t.Errorf("before the first view: said %d times that all is back, %d times that the guard is", all, guard)
		}
		r.publish(webOnly())
		r.kernel.Flush()
		after(repairEvery)
		if n := r.log.Count("and are back"); n != 1 {
			t.Errorf("with a view: said %d times", n)
		}
	})
}

// Who supervises the agent is called once the guard is in force, and hears of a
// loop that hangs.
func TestSupervision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h := &hanging{until: make(chan struct{})}
		r.wrap = func(c Capture) Capture { h.Capture = c; return h }
		var alive func() bool
		r.supervise = func(ctx context.Context, ask func() bool) error {
			if rules, ok := r.kernel.InForce(); !ok {
				t.Errorf("it is ready with %+v in force", rules)
			}
			alive = ask
			<-ctx.Done()
			return nil
		}
		r.mustStart(t)
		if !alive() {
			t.Error("not alive at the start")
		}
		h.hangs.Store(true)
		after(hangsAfter + 2*repairEvery)
		if alive() {
			t.Error("alive though its loop hangs")
		}
		if got := r.agent.status().Error; got != loopHangs {
			t.Errorf("the status says %q", got)
		}
		close(h.until)
		h.hangs.Store(false)
		synctest.Wait()
	})
}

// Envoy dead is not healthy, and nothing that a restart of the agent cures.
func TestHealthNeedsAnEnvoy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		r.publish(webOnly())
		r.wantHealthy(t, "with an Envoy", true)
		r.xds.Disconnect()
		r.wantHealthy(t, "without", false)
		if h := r.agent.health(time.Now()); h.Reason != noEnvoy {
			t.Errorf("the reason is %q", h.Reason)
		}
		if h := r.agent.liveness(time.Now()); !h.Healthy {
			t.Errorf("would be killed: %+v", h)
		}
	})
}

// hanging is a capture whose Repair waits.
type hanging struct {
	Capture
	hangs atomic.Bool
	until chan struct{}
}

func (h *hanging) Repair() (bool, error) {
	if h.hangs.Load() {
		<-h.until
	}
	return h.Capture.Repair()
}

// A first start without a cloud lives for as long as that takes; a loop that
// hangs does not.
func TestLivenessIsTheLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h := &hanging{until: make(chan struct{})}
		r.wrap = func(c Capture) Capture { h.Capture = c; return h }
		r.mustStart(t)
		alive := func(when string, want int) {
			t.Helper()
			w := httptest.NewRecorder()
			r.agent.healthMux().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/livez", nil))
			if w.Code != want {
				t.Errorf("%s: %d %s, want %d", when, w.Code, w.Body, want)
			}
		}
		alive("at the start", http.StatusOK)
		after(time.Hour)
		alive("an hour without a snapshot", http.StatusOK)
		h.hangs.Store(true)
		after(hangsAfter + 2*repairEvery)
		alive("hanging", http.StatusServiceUnavailable)
		r.wantHealthy(t, "hanging", false)
		h.hangs.Store(false)
		close(h.until)
		synctest.Wait()
		alive("going on", http.StatusOK)
	})
}

// What cannot be asked of anybody since the start is no node that an update goes on after, though it
// serves what it knows; one whose configuration is broken later is.
func TestAnAgentThatCannotAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		r.publish(webOnly())
		after(time.Minute)
		r.stop()
		r.again()
		ever, fault := atomic.Bool{}, atomic.Pointer[error]{}
		broken := errors.New("kubeconfig /x is empty")
		fault.Store(&broken)
		r.usable = func() (bool, error) { return ever.Load(), *fault.Load() }
		r.mustStart(t)
		is := func(when string, readyz int, findings ...string) {
			t.Helper()
			after(2 * time.Second)
			for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": readyz, "/livez": http.StatusOK} {
				w := httptest.NewRecorder()
				r.agent.healthMux().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
				if w.Code != want {
					t.Errorf("%s: %s is %d %s, want %d", when, path, w.Code, w.Body, want)
				}
			}
			r.wantFindings(t, when, findings...)
		}
		is("empty", http.StatusServiceUnavailable, "configuration: this node serves what it knows: kubeconfig /x is empty")
		var well error
		ever.Store(true)
		fault.Store(&well)
		is("mended", http.StatusOK)
		fault.Store(&broken)
		is("broken again", http.StatusOK, "configuration: what was given before goes on: kubeconfig /x is empty")
	})
}

// Load balancers are told of a Node that is about to go, and nobody else is: its rules are
// as they should be, and neither a readiness nor a liveness probe has anything to do.
func TestANodeThatIsAboutToGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{}
		r.mustStart(t)
		r.publish(webOnly())
		asked := func(when string, healthz int, eligible bool) {
			t.Helper()
			for path, want := range map[string]int{"/healthz": healthz, "/readyz": http.StatusOK, "/livez": http.StatusOK} {
				w := httptest.NewRecorder()
				r.agent.healthMux().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
				if w.Code != want {
					t.Errorf("%s: %s is %d %s, want %d", when, path, w.Code, w.Body, want)
				}
				var is map[string]any
				must(t, json.Unmarshal(w.Body.Bytes(), &is))
				said, has := is["nodeEligible"]
				if has != (path == "/healthz") || has && said != eligible || is["healthy"] != true {
					t.Errorf("%s: %s answers %s", when, path, w.Body)
				}
			}
		}
		asked("before anybody said anything of it", http.StatusOK, true)
		r.api.Leaving.Publish(true)
		synctest.Wait()
		asked("tainted", http.StatusServiceUnavailable, false)
		r.api.Set(func(a *nodetest.API) { a.Away = errBroken })
		after(time.Hour)
		asked("with the cloud gone since", http.StatusServiceUnavailable, false)
		r.api.Leaving.Publish(false)
		synctest.Wait()
		asked("it stays after all", http.StatusOK, true)
	})
}
