package dnsplugin

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/gridmesh/gridmesh/dnsplugin/answer"
	"github.com/gridmesh/gridmesh/source"
)

// A server that has a snapshot begins with it while its kubeconfig cannot be used; one that has
// none says what is wrong.
func TestAKubeconfigThatIsEmpty(t *testing.T) {
	dir := t.TempDir()
	snapshot, empty := filepath.Join(dir, "dns.v1"), filepath.Join(dir, "kubeconfig")
	must(t, source.NewKeeper(snapshot, time.Second).Write(&source.State{Snapshot: units()}, time.Now()))
	must(t, os.WriteFile(empty, nil, 0o600))
	for name, tc := range map[string]struct {
		snapshot string
		serves   bool
	}{
		"with a snapshot": {snapshot, true}, "none yet": {filepath.Join(dir, "none"), false}, "none asked for": {"", false},
	} {
		c := config{node: "a1", source: &url.URL{Scheme: "kubeconfig", Path: empty}, snapshot: tc.snapshot, ttl: 5}
		feed, err := c.open()
		if (feed != nil) != tc.serves || (err == nil) != tc.serves || err != nil && !strings.Contains(err.Error(), "has none") {
			t.Errorf("%s: %v, %v", name, feed, err)
		}
		if feed != nil {
			begins(t, c, feed)
		}
	}
}

// begins has a server answer by what it has, which is a snapshot.
func begins(t *testing.T, c config, from feed) {
	g := plugged(answer.Config{})
	g.now.Store(nil)
	g.cfg, g.feed = c, from
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); g.follow(ctx) }()
	defer func() { cancel(); <-ended }()
	for begin := time.Now(); !g.Ready(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 30*time.Second {
			t.Fatal("it has a snapshot, and is not ready")
		}
	}
	if now := g.now.Load(); now.from != fromSnapshot {
		t.Errorf("it answers from %v", now.from)
	}
	if code := asks(g, "10.1.0.1", "db-0.db.shop.svc.cluster.local."); code != dns.RcodeSuccess {
		t.Errorf("it answers %s", dns.RcodeToString[code])
	}
}
