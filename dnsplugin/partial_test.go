package dnsplugin

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/gridmesh/gridmesh/dnsplugin/answer"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// A source that has but a part, an agent after a restart without a cloud, is
// better than nothing, and not than a snapshot: names of it are answered, and
// none is denied, for what is not in it may exist.
func TestASourceThatHasAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "dns.v1")
		must(t, source.NewKeeper(path, time.Second).Write(&source.State{Snapshot: units()}, time.Now()))
		g, cell := plugged(answer.Config{Services: true}), &source.Snapshots{}
		g.now.Store(nil)
		g.feed, g.cfg.snapshot = fed{cell}, path
		reads := make(chan struct{})
		g.disk.read = func(path string) (*source.State, error) { <-reads; return source.ReadState(path) }
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); g.follow(ctx) }()
		const known, unknown, ordinal = "web.shop.svc.cluster.local.", "nobody.shop.svc.cluster.local.", "db-7.db.shop.svc.cluster.local."
		want := func(when, name string, rcode int) {
			t.Helper()
			synctest.Wait()
			if got := asks(g, "10.1.0.1", name); got != rcode {
				t.Errorf("%s, %s: %s, want %s", when, name, dns.RcodeToString[got], dns.RcodeToString[rcode])
			}
		}
		all := units()
		part := source.Subset(all, "a1", func(s *topology.Service) *topology.Service { return s })
		cell.Publish(part)
		want("of a part", known, dns.RcodeSuccess)
		for _, name := range []string{unknown, ordinal} {
			want("of a part", name, dns.RcodeRefused) // the next plugin's word
		}
		if g.Ready() {
			t.Error("ready with a part of the data")
		}
		close(reads)
		want("of the snapshot", unknown, dns.RcodeNameError)
		if now := g.now.Load(); now == nil || now.from != fromSnapshot || !g.Ready() {
			t.Errorf("with a snapshot: %+v", now)
		}
		cell.Publish(source.Subset(all, "a1", func(*topology.Service) *topology.Service { return nil }))
		want("of the snapshot, beside a part", known, dns.RcodeSuccess)
		cell.Publish(all)
		want("of all", ordinal, dns.RcodeNameError)
		cell.Publish(part)
		want("of all, beside a part", ordinal, dns.RcodeNameError)
		cancel()
		<-ended
		synctest.Wait()
	})
}
