package dnsplugin

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/kube"
	kubefeed "github.com/gridmesh/gridmesh/kube/feed"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

var log = clog.NewWithPlugin(pluginName)

// feed is where snapshots come from.
type feed interface {
	Run(ctx context.Context) error
	Get() (*topology.Snapshot, bool)
	Wake() <-chan struct{}
	LastContact() time.Time
}

func (c *config) open() (feed, error) {
	switch path := c.source.Path; c.source.Scheme {
	case "unix":
		return source.NewSocket(path), nil
	case "file":
		return source.NewDir(path), nil
	}
	client, err := kube.Connect(c.source.Path, "gridmesh-dns", kube.NodeRate())
	if err != nil {
		return nil, fmt.Errorf("source %q: %w", c.source, err)
	}
	return kubefeed.New(client, slog.New(slog.DiscardHandler), kubefeed.NewMetrics(prometheus.NewRegistry())), nil
}

// How a broken source is tried again, and how often the snapshot is written.
const (
	firstRetry    = 200 * time.Millisecond
	longestRetry  = 5 * time.Second
	snapshotEvery = 10 * time.Second
	// silence is how long a source may be silent after the start before that is told.
	silence = 10 * time.Second
)

// recall reads the last good snapshot, so that names resolve at once. One that
// cannot be read is reported, and nothing is made of it.
func (g *Grid) recall() {
	if g.cfg.snapshot == "" {
		return
	}
	info, _ := os.Stat(g.cfg.snapshot)
	st, err := source.ReadState(g.cfg.snapshot)
	switch {
	case err == nil && st == nil: // the first start
	case err != nil:
		log.Errorf("snapshot %s is not used: %v; it is written anew once %s answers", g.cfg.snapshot, err, g.cfg.source)
		snapshotErrors.Inc()
	default:
		if info != nil {
			g.recalled = info.ModTime()
		}
		g.publish(st.Snapshot, fromSnapshot)
	}
}

// follow keeps the index at what the source says until ctx ends. What was
// known stays while the source is away.
func (g *Grid) follow(ctx context.Context) {
	wake := g.feed.Wake()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.keepRunning(ctx)
	}()
	var keeper *source.Keeper
	if g.cfg.snapshot != "" {
		keeper = source.NewKeeper(g.cfg.snapshot, snapshotEvery)
	}
	late := time.After(silence)
	var due <-chan time.Time
	var whole *topology.Snapshot
	for {
		select {
		case <-ctx.Done():
			<-ended
			return
		case <-wake:
			s, _ := g.feed.Get()
			if s.Partial { // an agent after a restart without a cloud: what is known here is more
				log.Infof("source %s has but a part of the data until the cloud is back", g.cfg.source)
				continue
			}
			whole = s
			g.publish(s, fromSource)
			if keeper != nil && due == nil {
				due = time.After(keeper.Wait(time.Now()))
			}
		case <-late:
			if now := g.now.Load(); now == nil {
				log.Warningf("source %s has not answered for %s, and there is no snapshot: all names go to the next plugin", g.cfg.source, silence)
			} else if now.from == fromSnapshot {
				log.Warningf("source %s has not answered for %s: answers are from the %s", g.cfg.source, silence, g.origin(now.from))
			}
		case <-due:
			due = nil
			if err := keeper.Write(&source.State{Snapshot: whole}, time.Now()); err != nil {
				log.Errorf("snapshot %s cannot be written, and is tried again: %v", g.cfg.snapshot, err)
				snapshotErrors.Inc()
				due = time.After(snapshotEvery)
			}
		}
	}
}

// heard is when the origin of the data was last heard of; zero for unknown.
func (g *Grid) heard() time.Time {
	if at := g.feed.LastContact(); at.After(g.recalled) {
		return at
	}
	return g.recalled
}

func (g *Grid) keepRunning(ctx context.Context) {
	retry := firstRetry
	for ctx.Err() == nil {
		start := time.Now()
		err := g.feed.Run(ctx)
		if time.Since(start) > longestRetry {
			retry = firstRetry
		}
		if ctx.Err() == nil {
			log.Warningf("source %s: %v; trying again in %s", g.cfg.source, err, retry)
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
		}
		retry = min(2*retry, longestRetry)
	}
}
