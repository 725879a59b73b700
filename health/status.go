package health

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/gridmesh/gridmesh/health/report"
	"github.com/gridmesh/gridmesh/internal/obs"
)

// Status is what this node knows of its unit: who checks whom, and what it heard last.
func (d *Daemon) Status(ctx context.Context) (report.NodeStatus, error) {
	return query(ctx, d, d.status)
}

// status is the loop's.
func (d *Daemon) status(now time.Time) report.NodeStatus {
	known := d.machine.Known(now)
	s := report.StatusOf(now, d.cfg.Vote.Self, &d.cfg.Vote, &known)
	s.Version, s.Unit = obs.Version(), d.unit.Name
	of := make(map[string]Member, len(d.unit.Members))
	for _, m := range d.unit.Members {
		of[m.Name] = m
	}
	for i := range s.Members {
		m := &s.Members[i]
		m.Lost, m.Verdict = of[m.Name].Lost, of[m.Name].Verdict
		if addr, ok := d.addrs[m.Name]; ok {
			m.Address = addr.String()
		}
	}
	return s
}

// StatusHandler answers GET /status with it, in JSON.
func (d *Daemon) StatusHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), localPatience)
		defer cancel()
		s, err := d.Status(ctx)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s)
	})
	return mux
}
