package statedir

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/node/outage"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// due writes what is due, as the agent's loop does, and returns what became of it.
func due(t *testing.T, s *Saver, st *source.State) error {
	t.Helper()
	<-s.Due()
	if !s.Take() {
		t.Fatal("it is due, and there is nothing to write")
	}
	s.Write(st)
	saved := <-s.Done
	s.Wrote(saved.Err)
	return saved.Err
}

// A write that fails is tried again without another change, and until it succeeds
// what is on disk is known to be behind.
func TestASaveThatFailsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), source.StateFile)
		s, st := NewSaver(path), &source.State{Snapshot: topology.NewBuilder().Build(), Used: []string{"used"}}
		defer s.Stop()
		if s.Due() != nil || s.Take() {
			t.Error("something is due before the first change")
		}
		put, tries := s.Put, 0
		s.Put = func(st *source.State, at time.Time) error {
			if tries++; tries == 1 {
				return unix.ENOSPC
			}
			return put(st, at)
		}
		changed := time.Now()
		s.Mark()
		if err := due(t, &s, st); !errors.Is(err, unix.ENOSPC) || !s.Pending() {
			t.Errorf("the first write: %v, pending: %v", err, s.Pending())
		}
		if _, kept := s.Behind(time.Now()); kept || !s.Current(time.Now()).IsZero() {
			t.Error("what was not written is vouched for")
		}
		time.Sleep(time.Minute)
		if late, _ := s.Behind(time.Now()); late < time.Minute || late != time.Since(changed) {
			t.Errorf("%s behind, want %s", late, time.Since(changed))
		}
		if err := due(t, &s, st); err != nil || s.Pending() {
			t.Errorf("the second write: %v, pending: %v", err, s.Pending())
		}
		late, kept := s.Behind(time.Now())
		if now := time.Now(); late != 0 || !kept || !s.Current(now).Equal(now) {
			t.Errorf("written, and %s behind", late)
		}
		if read, err := source.ReadState(path); err != nil || !slices.Equal(read.Used, st.Used) {
			t.Errorf("on disk is %+v, %v", read, err)
		}
	})
}

// While a disk hangs one write is on its way and no second one; that is said once.
// What changed meanwhile is written after it, and counts as behind until then.
func TestASaveThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := make(chan struct{})
		s := NewSaver("")
		defer s.Stop()
		var wrote []string
		s.Put = func(st *source.State, _ time.Time) error {
			<-disk
			wrote = append(wrote, st.Used...)
			return nil
		}
		s.Mark()
		<-s.Due()
		if !s.Take() {
			t.Fatal("nothing to write")
		}
		s.Write(&source.State{Used: []string{"old"}})
		time.Sleep(Patience)
		if _, stalled := s.Stalled(time.Now()); stalled {
			t.Error("said too soon")
		}
		changed := time.Now()
		s.Mark()
		time.Sleep(time.Hour)
		if away, stalled := s.Stalled(time.Now()); !stalled || away != time.Hour+Patience {
			t.Errorf("stalled: %v, for %s", stalled, away)
		}
		if _, stalled := s.Stalled(time.Now()); stalled || s.Take() || !s.Writing() {
			t.Error("it was said twice, or a second write began")
		}
		close(disk)
		s.Wrote((<-s.Done).Err)
		if late, kept := s.Behind(time.Now()); !kept || late != time.Since(changed) || !s.Current(time.Now()).Equal(changed) {
			t.Errorf("%s behind, want %s", late, time.Since(changed))
		}
		if err := due(t, &s, &source.State{Used: []string{"new"}}); err != nil {
			t.Error(err)
		}
		if late, _ := s.Behind(time.Now()); late != 0 || !slices.Equal(wrote, []string{"old", "new"}) {
			t.Errorf("%s behind, written were %v", late, wrote)
		}
	})
}

// A note that fails is dirty again and leads on from what is on disk; one that
// hangs is said once.
func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := make(chan error)
		onDisk, want := outage.Note{Phase: outage.Held}, outage.Note{Phase: outage.Cut}
		r := NewRecorder(Notebook{}, onDisk)
		var from []outage.Phase
		r.Put = func(was, want outage.Note) (outage.Note, error) {
			from = append(from, was.Phase)
			if err := <-disk; err != nil {
				return was, err
			}
			return want, nil
		}
		r.Dirty = true
		r.Write(want)
		time.Sleep(2 * Patience)
		if away, stalled := r.Stalled(time.Now()); !stalled || away != 2*Patience || !r.Writing() || r.Dirty {
			t.Errorf("stalled: %v, for %s, dirty: %v", stalled, away, r.Dirty)
		}
		if _, stalled := r.Stalled(time.Now()); stalled {
			t.Error("said twice")
		}
		disk <- unix.EIO
		r.Wrote(<-r.Done)
		if r.Writing() || !r.Dirty || r.OnDisk.Phase != outage.Held {
			t.Errorf("after a failure: writing %v, dirty %v, on disk %v", r.Writing(), r.Dirty, r.OnDisk.Phase)
		}
		r.Write(want)
		disk <- nil
		r.Wrote(<-r.Done)
		if r.Dirty || r.OnDisk.Phase != outage.Cut || !slices.Equal(from, []outage.Phase{outage.Held, outage.Held}) {
			t.Errorf("after it: dirty %v, on disk %v, from %v", r.Dirty, r.OnDisk.Phase, from)
		}
	})
}
