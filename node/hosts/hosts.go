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

// How long changes are gathered before the file is written, and how long after
// a failure it is tried again.
const (
	batch      = 200 * time.Millisecond
	retryAfter = 5 * time.Second
)

// File is a hosts file.
type File struct {
	Path     string
	Domain   string // the zone of its names
	Node     string // whose unit it is
	Topology topology.Options
	Log      *slog.Logger
}

// Keep writes the ordinals of this unit into the file whenever they change,
// until ctx ends.
func (f File) Keep(ctx context.Context, snapshots *latest.Value[*topology.Snapshot]) error {
	wake := snapshots.Wake()
	defer snapshots.Forget(wake)
	viewer, index := topology.NewViewer(f.Node, f.Topology), answer.New(answer.Config{})
	var last []byte
	var retry <-chan time.Time
	for first := true; ; {
		select {
		case <-wake:
		case <-retry:
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
