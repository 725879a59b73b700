package health

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// balky is a cloud that does not take every verdict.
type balky struct {
	end
	mu        sync.Mutex
	refs      func(v Verdict) error // nil: it is taken
	most, now int                   // at once
	took      time.Duration
	tried     map[string][]time.Time
	latest    map[string]time.Time // of who was written, when
}

func (b *balky) Annotate(ctx context.Context, v Verdict) error {
	b.mu.Lock()
	b.now++
	b.most = max(b.most, b.now)
	b.tried[v.Node] = append(b.tried[v.Node], time.Now())
	refuse, took := b.refs, b.took
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.now--
	}()
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := refuse(v); err != nil {
		return err
	}
	b.mu.Lock()
	b.latest[v.Node] = time.Now()
	b.mu.Unlock()
	return b.end.Annotate(ctx, v)
}

// setUp changes what the cloud takes.
func (b *balky) setUp(took time.Duration, refuse func(v Verdict) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.took, b.refs, b.most = took, refuse, 0
	clear(b.tried)
	clear(b.latest)
}

// withBalky runs a unit that has such a cloud, until it is settled.
func withBalky(t *testing.T, n int, holder string, f func(t *testing.T, b *balky, s *site, u Unit)) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		u := s.unit(t, n)
		s.holder = holder
		b := &balky{end: end{s, "none"}, tried: map[string][]time.Time{}, latest: map[string]time.Time{}, refs: func(Verdict) error { return nil }}
		for _, d := range s.daemons {
			d.cloud = b
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		s.start(ctx, &all, u)
		time.Sleep(3 * time.Minute)
		for i := range u.Members { // the cloud tells what was written
			u.Members[i].Verdict = "true"
		}
		for _, d := range s.daemons {
			d.SetUnit(ctx, u.clone())
		}
		f(t, b, s, u)
		cancel()
		all.Wait()
	})
}

// A node's uplink is cut, and the first time its verdict is not written: that is tried again within
// seconds, though the cloud has the same verdict, with older evidence.
func TestAVerdictIsWrittenAgain(t *testing.T) {
	withBalky(t, 5, "a-0", func(t *testing.T, b *balky, s *site, _ Unit) {
		failed := 0
		b.setUp(0, func(v Verdict) error {
			if v.Node != "a-3" { // one of it is under way at a time
				return nil
			}
			if failed++; failed <= 2 {
				return errors.New("the connection was reset")
			}
			return nil
		})
		cut := time.Now()
		s.daemons["a-3"].SetUplink(t.Context(), false)
		time.Sleep(20 * time.Second)
		b.mu.Lock()
		defer b.mu.Unlock()
		if at := b.latest["a-3"]; at.IsZero() || at.Sub(cut) > 12*time.Second {
			t.Errorf("it is written %s after the cut, tried %v", at.Sub(cut), b.tried["a-3"])
		}
	})
}

// What the API server refuses is not tried again and again for ever, and of a Node that is gone once for each vote.
func TestAVerdictThatIsRefused(t *testing.T) {
	withBalky(t, 5, "a-0", func(t *testing.T, b *balky, s *site, _ Unit) {
		gone := apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "a-3")
		forbidden := errors.New("forbidden")
		b.setUp(0, func(v Verdict) error { return map[string]error{"a-3": gone, "a-4": forbidden}[v.Node] })
		s.daemons["a-3"].SetUplink(t.Context(), false)
		s.daemons["a-4"].SetUplink(t.Context(), false)
		time.Sleep(50 * time.Second)
		b.mu.Lock()
		defer b.mu.Unlock()
		if gone, other := len(b.tried["a-3"]), len(b.tried["a-4"]); gone == 0 || gone > 2 || other < 4 || other > 8 {
			t.Errorf("of a Node that is gone it is tried %d times, of one that is refused %d times", gone, other)
		}
	})
}

// A Node that others write often is a conflict now and then: it is tried again, as long as it is there.
func TestAConflict(t *testing.T) {
	withBalky(t, 5, "a-0", func(t *testing.T, b *balky, s *site, u Unit) {
		conflict := apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "a-3", errors.New("it was modified"))
		failed := 0
		b.setUp(0, func(v Verdict) error {
			switch {
			case v.Node == "a-3" && failed < 2:
				failed++
				return conflict
			case v.Node == "a-4":
				return conflict
			}
			return nil
		})
		cut := time.Now()
		s.daemons["a-3"].SetUplink(t.Context(), false)
		s.daemons["a-4"].SetUplink(t.Context(), false)
		time.Sleep(12 * time.Second)
		s.daemons["a-0"].SetUnit(t.Context(), Unit{Name: u.Name, Members: u.Members[:4]})
		again := time.Now()
		time.Sleep(20 * time.Second)
		b.mu.Lock()
		defer b.mu.Unlock()
		if at := b.latest["a-3"]; at.IsZero() || at.Sub(cut) > 12*time.Second {
			t.Errorf("it is written %s after the cut, tried %v", at.Sub(cut), b.tried["a-3"])
		}
		if at := b.tried["a-4"]; len(at) < 2 || at[len(at)-1].After(again) {
			t.Errorf("of a Node that is gone since %s it is tried %v", again, at)
		}
	})
}

// A node that is cut, or lost to the cloud though it says nothing of itself, while the verdicts of many others
// are written anew comes before these.
func TestNewsIsWrittenFirst(t *testing.T) {
	const last = "a-59"
	for name, happens := range map[string]func(t *testing.T, s *site, u Unit){
		"cut": func(t *testing.T, s *site, _ Unit) { s.daemons[last].SetUplink(t.Context(), false) },
		"lost": func(t *testing.T, s *site, u Unit) {
			u.Members[59].Lost = true
			s.daemons["a-0"].SetUnit(t.Context(), u.clone())
		},
	} {
		t.Run(name, func(t *testing.T) {
			withBalky(t, 60, "a-0", func(t *testing.T, b *balky, s *site, u Unit) {
				for i := 1; i < 59; i++ {
					s.daemons[u.Members[i].Name].SetUplink(t.Context(), false)
				}
				time.Sleep(30 * time.Second)
				for i := 1; i < 59; i++ {
					u.Members[i].Cut, u.Members[i].Lost = true, true
				}
				s.daemons["a-0"].SetUnit(t.Context(), u.clone())
				time.Sleep(2 * time.Minute) // it is written since they are lost
				b.setUp(4*time.Second, func(Verdict) error { return nil })
				busy := func() bool {
					b.mu.Lock()
					defer b.mu.Unlock()
					return b.now == mostWriting && len(b.tried) == mostWriting
				}
				for wait := 0; !busy(); wait++ {
					if wait == 120 {
						t.Fatal("none is written anew")
					}
					time.Sleep(time.Second)
				}
				began := time.Now()
				happens(t, s, u)
				time.Sleep(40 * time.Second)
				b.mu.Lock()
				defer b.mu.Unlock()
				if at := b.tried[last]; len(at) == 0 || at[0].Sub(began) > 17*time.Second || len(b.tried) < 59 {
					t.Errorf("it is written %v after the others began at %s; of %d nodes some are", at, began, len(b.tried))
				}
			})
		})
	}
}

// Many lose their uplinks at once: some verdicts are written at a time, and all are in the end. Who
// holds the Lease no more writes none.
func TestManyVerdicts(t *testing.T) {
	withBalky(t, 30, "", func(t *testing.T, b *balky, s *site, u Unit) {
		b.setUp(time.Second, func(Verdict) error { return nil })
		for name, d := range s.daemons {
			if !s.holds(name) {
				d.SetUplink(t.Context(), false)
			}
		}
		time.Sleep(30 * time.Second)
		b.mu.Lock()
		if b.most != mostWriting || len(b.latest) < len(u.Members)-2 { // the holder is up, and a-1 was cut before
			t.Errorf("%d at once, and %d are written", b.most, len(b.latest))
		}
		b.mu.Unlock()
		b.setUp(time.Second, func(Verdict) error { return errors.New("it is ill") })
		time.Sleep(40 * time.Second)
		s.daemons[s.holder].SetLease(t.Context(), time.Now())
		time.Sleep(2 * time.Second) // what was under way
		b.setUp(0, func(Verdict) error { return nil })
		time.Sleep(10 * time.Second)
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.tried) > 0 {
			t.Errorf("without the Lease it writes %v", b.tried)
		}
	})
}
