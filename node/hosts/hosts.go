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

	"golang.org/x/sys/unix"

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
	var compared, written said
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
				compared.once(f.Log.Warn, "the hosts file cannot be read, and so not compared with what it should be", err)
				continue
			case same:
				compared = ""
				continue
			}
			compared.once(f.Log.Warn, "the hosts file was changed or removed by somebody else; writing it again", nil)
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
			written.once(f.Log.Error, "the hosts file cannot be written; trying again", err)
			retry = time.After(retryAfter)
			continue
		}
		first, last, retry, written = false, data, nil, ""
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

// said is what was said last, and is not said again while it goes on.
type said string

func (s *said) once(log func(msg string, args ...any), msg string, err error) {
	var args []any
	if err != nil {
		args = []any{obs.KeyErr, err}
	}
	if now := said(msg + cause(err)); *s != now {
		*s = now
		log(msg, args...)
	}
}

// cause is the root of an error: its text may have another temporary name each time.
func cause(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return ""
}
