package health

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/health/report"
	"github.com/gridmesh/gridmesh/health/vote"
)

// Who leads knows what all nodes see, and every node says who that is; a dead one is seen by
// nobody.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.kill("a-3")
		u := s.unit(t, 4)
		u.Members[3].Lost = true
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for _, d := range s.daemons {
			all.Go(func() { _ = d.Run(ctx) })
			d.SetUnit(ctx, u)
			d.SetUplink(ctx, true)
		}
		time.Sleep(3 * time.Minute)
		var told []report.NodeStatus
		for _, name := range []string{"a-0", "a-1", "a-2"} {
			w := httptest.NewRecorder()
			s.daemons[name].StatusHandler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/status", nil))
			var status report.NodeStatus
			if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil {
				t.Fatal(err)
			}
			told = append(told, status)
		}
		i := slices.IndexFunc(told, func(s report.NodeStatus) bool { return s.Leads })
		if i < 0 {
			t.Fatalf("nobody leads: %+v", told)
		}
		leads := told[i]
		for _, status := range told {
			if status.Node != leads.Node && status.Leader != leads.Node {
				t.Errorf("%s takes %q for the leader, which is %s", status.Node, status.Leader, leads.Node)
			}
		}
		if m := leads.Members[3]; m.Name != "a-3" || !m.Lost || m.Address != "192.0.2.4" || len(m.Observers) != 3 || len(leads.Reports) != 3 || !slices.Equal(leads.Dead, []string{"a-3"}) {
			t.Errorf("%+v", leads)
		}
		for _, h := range leads.Reports {
			if j := slices.IndexFunc(h.Results, func(r report.Seen) bool { return r.Node == "a-3" }); j < 0 || h.Results[j].Answer != "no" || h.Age > 11 {
				t.Errorf("%+v", h)
			}
		}
		var b strings.Builder
		if err := leads.WriteText(&b); err != nil || !strings.Contains(b.String(), "leader    this node, without the unit's Lease: it writes nothing\ndead      a-3\n") ||
			!strings.Contains(b.String(), "4  a-3  .  .  .  -  0 of 3   -       -       voted dead\n") {
			t.Errorf("%v\n%s", err, b.String())
		}
		cancel()
		all.Wait()
	})
}

// Where the loop has ended there is no status, and that is said.
func TestStatusOfWhatEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d, err := New(Config{vote.Default("a"), slog.New(slog.DiscardHandler), nil}, end{}, end{}, NewMetrics(prometheus.NewRegistry()))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	d.StatusHandler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/status", nil))
	if w.Code != 503 {
		t.Errorf("%d %s", w.Code, w.Body.String())
	}
}
