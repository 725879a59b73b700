package node

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// wantSilence looks for an outage of eleven minutes or more in what the status
// says, as JSON and in words.
func wantSilence(t *testing.T, r *rig, known bool) {
	t.Helper()
	report := r.agent.status()
	var text strings.Builder
	must(t, report.WriteText(&text, time.Now()))
	for _, at := range []time.Time{report.LastContact, report.APIServer.LastContact} {
		if age := time.Since(at); at.IsZero() == known || known && (age < 10*time.Minute || age > 14*time.Minute) {
			t.Errorf("the last contact is %s", at)
		}
	}
	for _, words := range []string{"no contact with the source for 1", "unavailable for 1"} {
		if strings.Contains(text.String(), words) != known {
			t.Errorf("a contact before is known: %v, and the status says\n%s", known, &text)
		}
	}
}

// The node's DNS says how old its data are by what the agent tells it: after a
// restart in an outage, by what the one before it noted.
func TestTheFeedKnowsTheSilence(t *testing.T) {
	r := newRig(t)
	a, err := New(r.cfg, r.parts())
	must(t, err)
	at := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	a.known.Store(&at)
	a.snapshot.Publish(&topology.Snapshot{Partial: true})
	path := filepath.Join(t.TempDir(), "feed.sock")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	dns := source.NewSocket(path)
	wg.Go(func() { _ = a.serveSnapshots(ctx, l) })
	wg.Go(func() { _ = dns.Run(ctx) })
	for end := time.Now().Add(time.Minute); !dns.LastContact().Equal(at); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the DNS knows of %s, the agent of %s", dns.LastContact(), at)
		}
	}
}

// Who watches a node sees since when the cloud has been silent, where there is one.
func TestSilenceIsCounted(t *testing.T) {
	const name = "gridmesh_last_contact_timestamp_seconds"
	shown := func(r *rig) (value float64, there bool) {
		t.Helper()
		p := r.parts()
		if _, err := New(r.cfg, p); err != nil {
			t.Fatal(err)
		}
		r.source.Contacted(time.Unix(1_800_000_000, 500_000_000))
		families, err := p.Registry.Gather()
		must(t, err)
		for _, f := range families {
			if f.GetName() == name {
				return f.GetMetric()[0].GetGauge().GetValue(), true
			}
		}
		return 0, false
	}
	r := newRig(t)
	if v, there := shown(r); there {
		t.Errorf("without a cloud %s is %v", name, v)
	}
	r.again()
	r.api = &nodetest.API{}
	if v, _ := shown(r); v != 1_800_000_000.5 {
		t.Errorf("%s is %v", name, v)
	}
}

// A restart in an outage does not end the silence that is shown: what is asked is
// how long the node has gone on alone. Where no contact is known it is 0, and
// neither a clock that was ahead nor a damaged note makes it something else.
func TestSilenceOutlivesARestart(t *testing.T) {
	const name = "gridmesh_last_contact_timestamp_seconds"
	for what, spoil := range map[string]func(t *testing.T, dir string) (known bool){
		"as it was left":      func(*testing.T, string) bool { return true },
		"without the contact": func(t *testing.T, dir string) bool { must(t, os.Remove(filepath.Join(dir, "contact"))); return true },
		"nothing is known":    func(t *testing.T, dir string) bool { must(t, os.RemoveAll(dir)); return false },
		"a clock that was ahead": func(t *testing.T, dir string) bool {
			must(t, os.Remove(filepath.Join(dir, "outage")))
			at := time.Now().Add(24 * time.Hour)
			must(t, os.Chtimes(filepath.Join(dir, "contact"), at, at))
			return false
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _ := online(t)
				after(statedir.SaveInterval)
				before := r.metric(t, name)
				r.cut(time.Minute)
				r.stop()
				known := spoil(t, r.cfg.StateDir)
				r.again()
				r.cut(10 * time.Minute)
				r.mustStart(t)
				after(time.Minute)
				switch v := r.metric(t, name); {
				case !known && v != 0:
					t.Errorf("it is %v", v)
				case known && (v < before || v > before+60):
					t.Errorf("it was %v before the outage and is %v after the restart", before, v)
				}
				wantSilence(t, r, known)
				r.heal()
				after(time.Minute)
				if age := float64(time.Now().Unix()) - r.metric(t, name); age > 30 {
					t.Errorf("after the outage it is %v s old", age)
				}
			})
		})
	}
}
