// Package hosts keeps the hosts file of a DNS server of the operator's own: the
// ordinals of this unit, as the node's own DNS answers them.
package hosts

import (
	"bytes"
	"context"
	"log/slog"
	"time"

	"github.com/gridmesh/gridmesh/dnsplugin/answer"
	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/latest"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/topology"
)

// How long changes are gathered before the file is written, how long after a
// failure it is tried again, and how often it is compared with what was written.
const (
	batch      = 200 * time.Millisecond
	retryAfter = 5 * time.Second
	checkEvery = time.Minute
)

// File is a hosts file.
type File struct {
	Path     string
	Domain   string // the zone of its names
	Node     string // whose unit it is
	Topology topology.Options
	Log      *slog.Logger
}

// Keep writes the ordinals of this unit into the file whenever they change, or
// somebody else changed the file, until ctx ends.
func (f File) Keep(ctx context.Context, snapshots *latest.Value[*topology.Snapshot]) error {
	wake := snapshots.Wake()
	defer snapshots.Forget(wake)
	viewer, index := topology.NewViewer(f.Node, f.Topology), answer.New(answer.Config{})
	var last []byte
	var retry <-chan time.Time
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	fought := false // for the file, and that is said
	for first := true; ; {
		select {
		case <-wake:
		case <-retry:
		case <-check.C:
			if first {
				continue
			}
			if holds(f.Path, last) {
				fought = false
				continue
			}
			if !fought {
				f.Log.Warn("the hosts file was changed by somebody else; writing it again")
			}
			first, fought = true, true
		case <-ctx.Done():
			return nil
		}
		select {
		case <-time.After(batch):
		case <-ctx.Done():
			return nil
		}
		snap, _ := snapshots.Get()
		if snap.Partial {
			continue // what the file says is newer, or as good
		}
		index = index.Next(viewer.See(snap))
		data := index.Hosts(f.Domain)
		if !first && bytes.Equal(data, last) {
			continue
		}
		if err := atomicfile.WriteShared(f.Path, data); err != nil {
			f.Log.Error("the hosts file cannot be written; trying again", obs.KeyErr, err)
			retry = time.After(retryAfter)
			continue
		}
		first, last, retry = false, data, nil
	}
}

// holds reports whether a file is as it was written.
func holds(path string, want []byte) bool {
	data, _, err := atomicfile.Read(path, int64(len(want)))
	return err == nil && bytes.Equal(data, want)
}
