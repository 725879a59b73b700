package node

import (
	"bytes"
	"context"
	"time"

	"github.com/gridmesh/gridmesh/dnsplugin/answer"
	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/topology"
)

// How long changes are gathered before the file is written, how long after a
// failure it is tried again, and how often it is compared with what was written.
const (
	hostsBatch = 200 * time.Millisecond
	hostsRetry = 5 * time.Second
	hostsCheck = time.Minute
)

// keepHosts writes the ordinals of this unit into the hosts file whenever they
// change, or somebody else changed it, until ctx ends.
func (a *Agent) keepHosts(ctx context.Context) error {
	wake := a.snapshot.Wake()
	defer a.snapshot.Forget(wake)
	viewer, index := topology.NewViewer(a.cfg.Node, a.cfg.Topology), answer.New(answer.Config{})
	var last []byte
	var retry <-chan time.Time
	var changed quiet
	check := time.NewTicker(hostsCheck)
	defer check.Stop()
	for first := true; ; {
		select {
		case <-wake:
		case <-retry:
		case <-check.C:
			if first || holds(a.cfg.HostsFile, last) {
				continue
			}
			changed.say(a.log.Warn, "the hosts file was changed by somebody else; writing it again")
			first = true
		case <-ctx.Done():
			return nil
		}
		select {
		case <-time.After(hostsBatch):
		case <-ctx.Done():
			return nil
		}
		snap, _ := a.snapshot.Get()
		if snap.Partial {
			continue // what the file says is newer, or as good
		}
		index = index.Next(viewer.See(snap))
		data := index.Hosts(a.cfg.ClusterDomain)
		if !first && bytes.Equal(data, last) {
			continue
		}
		if err := atomicfile.WriteShared(a.cfg.HostsFile, data); err != nil {
			a.log.Error("the hosts file cannot be written; trying again", obs.KeyErr, err)
			retry = time.After(hostsRetry)
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
