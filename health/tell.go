package health

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/health/told"
	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/quiet"
	"github.com/gridmesh/gridmesh/internal/run"
)

// tellEvery is how often it is looked whether there is something new to tell.
const tellEvery = time.Second

// Tell keeps a file that tells other programs of the node whom the unit calls dead, until
// ctx ends: anew whenever that changes, and every told.Every, which says that the daemon
// lives. One that begins says nothing before others may have told it who is dead; what the
// one before it said counts meanwhile. An empty path is no file.
func Tell(ctx context.Context, d *Daemon, path string, log logger) error {
	if path == "" || !run.Pause(ctx, d.cfg.Vote.Fresh) {
		return nil
	}
	t := teller{since: map[string]time.Time{}}
	var fault quiet.Change
	for {
		if err := t.tell(ctx, d, path); ctx.Err() == nil && fault.To(err) {
			log.Warn("cannot tell the other programs of this node whom the unit calls dead; it is tried again", obs.KeyErr, err)
		}
		if !run.Pause(ctx, tellEvery) {
			return nil
		}
	}
}

// teller is what was told.
type teller struct {
	last  told.Word
	since map[string]time.Time // who is dead, and since when
}

// tell writes the file where that is due.
func (t *teller) tell(ctx context.Context, d *Daemon, path string) error {
	within, cancel := context.WithTimeout(ctx, localPatience)
	defer cancel()
	w, err := query(within, d, func(now time.Time) told.Word {
		w := told.Word{Node: d.cfg.Vote.Self, Unit: d.unit.Name, Members: len(d.unit.Members), Written: now}
		for _, name := range d.machine.Dead(now) {
			w.Dead = append(w.Dead, told.Dead{Node: name, Since: now})
		}
		return w
	})
	if err != nil {
		return err // a loop that hangs has nothing told
	}
	t.date(w.Dead)
	if w.Unit == t.last.Unit && w.Members == t.last.Members && slices.Equal(w.Dead, t.last.Dead) && w.Written.Sub(t.last.Written) < told.Every {
		return nil
	}
	data, err := w.Encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the directory of whom the unit calls dead: %w", err)
	}
	if err := atomicfile.Write(path, data); err != nil {
		return err
	}
	t.last = w
	return nil
}

// date has each of the dead since it was first among them.
func (t *teller) date(dead []told.Dead) {
	was := t.since
	t.since = make(map[string]time.Time, len(dead))
	for i, d := range dead {
		if at, known := was[d.Node]; known {
			dead[i].Since = at
		}
		t.since[d.Node] = dead[i].Since
	}
}
