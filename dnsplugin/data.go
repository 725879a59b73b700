package dnsplugin

import (
	"context"
	"fmt"
	"log/slog"
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
	client, err := kube.Late(kube.Options{Kubeconfig: c.source.Path, Agent: "gridmesh-dns", Rate: kube.NodeRate()})
	switch {
	case err == nil:
	case client == nil || c.snapshot == "" || !source.MayHaveState(c.snapshot):
		return nil, fmt.Errorf("source %q: %w", c.source, err)
	default: // as after a power cut that left the file empty
		log.Errorf("source %q: %v; it is read again and again, until then snapshot %s answers", c.source, err, c.snapshot)
	}
	return kubefeed.New(client, slog.New(slog.DiscardHandler), kubefeed.NewMetrics(prometheus.NewRegistry())), nil
}

// How a broken source is tried again, and how often the snapshot is written.
const (
	firstRetry    = 200 * time.Millisecond
	longestRetry  = 5 * time.Second
	snapshotEvery = 10 * time.Second
	// warnAfter is how long a source may be silent after the start before that is logged.
	warnAfter = 10 * time.Second
)

// takeSnapshot answers from the last good snapshot, so that names resolve without
// a source, unless that has answered already. One that cannot be read is reported,
// and nothing is made of it.
func (g *Grid) takeSnapshot(r readSnapshot) {
	switch {
	case r.err != nil:
		log.Errorf("snapshot %s is not used: %v; it is written anew once %s answers", g.cfg.snapshot, r.err, g.cfg.source)
		snapshotErrors.Inc()
	case r.state != nil && !g.Ready():
		g.snapshotAt.Store(&r.at)
		g.publish(r.state.Snapshot, fromSnapshot)
	}
}

// take answers from what the source says. Of an agent after a restart without a
// cloud that is a part, and what is known here is more, unless that is nothing.
func (g *Grid) take(s *topology.Snapshot, file *snapshotFile) {
	switch {
	case !s.Partial:
		g.publish(s, fromSource)
		file.changed(s)
	case g.Ready():
		log.Infof("source %s has but a part of the data until the cloud is back", g.cfg.source)
	default:
		g.publish(s, fromPart)
	}
}

// follow keeps the index at what the source says until ctx ends. What was
// known stays while the source is away. It waits for no disk.
func (g *Grid) follow(ctx context.Context) {
	wake := g.feed.Wake()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.keepRunning(ctx)
	}()
	file := openSnapshot(g.cfg.snapshot, g.disk)
	late := time.After(warnAfter)
	for {
		select {
		case <-ctx.Done():
			<-ended
			return
		case r := <-file.read:
			file.read = nil
			g.takeSnapshot(r)
		case <-wake:
			s, _ := g.feed.Get()
			g.take(s, file)
		case <-late:
			g.warnLate()
		case <-file.due:
			if file.write() {
				log.Errorf("the disk of snapshot %s does not answer: names resolve, but a restart without %s would know older ones or none", g.cfg.snapshot, g.cfg.source)
				snapshotErrors.Inc()
			}
		case err := <-file.wrote:
			if file.done(err); err != nil {
				log.Errorf("snapshot %s cannot be written, and is tried again: %v", g.cfg.snapshot, err)
				snapshotErrors.Inc()
			}
		}
	}
}

// warnLate tells of a source that has not answered yet.
func (g *Grid) warnLate() {
	if now := g.now.Load(); now == nil {
		log.Warningf("source %s has not answered for %s, and there is no snapshot: all names go to the next plugin", g.cfg.source, warnAfter)
	} else if now.from != fromSource {
		log.Warningf("source %s has not answered for %s: answers are from the %s", g.cfg.source, warnAfter, g.origin(now.from))
	}
}

// lastContact is when the origin of the data last answered; zero for unknown.
func (g *Grid) lastContact() time.Time {
	at := g.feed.LastContact()
	if written := g.snapshotAt.Load(); written != nil && written.After(at) {
		return *written
	}
	return at
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
