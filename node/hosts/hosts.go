// Package hosts keeps the hosts file of a DNS server of the operator's own: the
// ordinals of this unit, as the node's own DNS answers them.
package hosts

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/gridmesh/gridmesh/dnsplugin/answer"
	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/latest"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/quiet"
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
	var compared, changed, written quiet.Line
	for first := true; ; {
		select {
		case <-wake:
		case <-retry:
		case <-check.C:
			if first {
				continue
			}
			same, err := holds(f.Path, last)
			switch {
			case err != nil: // as descriptors lack: it may be as it was
				compared.Say(f.Log.Warn, "the hosts file cannot be read, and so not compared with what it should be", obs.KeyErr, err)
				continue
			case same:
				continue
			}
			changed.Say(f.Log.Warn, "the hosts file was changed or removed by somebody else; writing it again")
			first = true
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
			written.Say(f.Log.Error, "the hosts file cannot be written; trying again", obs.KeyErr, err)
			retry = time.After(retryAfter)
			continue
		}
		first, last, retry = false, data, nil
	}
}

// holds reports whether a file is as it was written, and not what somebody made of
// it; an error says that this cannot be known.
func holds(path string, want []byte) (bool, error) {
	data, _, err := atomicfile.Read(path, int64(len(want)))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, atomicfile.ErrOdd) {
		return false, nil
	}
	return bytes.Equal(data, want), err
}
