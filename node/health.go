package node

import (
	"encoding/json"
	"net/http"
	"time"
)

// health is what /healthz and /livez answer, in kube-proxy's words.
type health struct {
	LastUpdated  time.Time `json:"lastUpdated"`
	CurrentTime  time.Time `json:"currentTime"`
	NodeEligible bool      `json:"nodeEligible"`
	Healthy      bool      `json:"healthy"`
	Source       string    `json:"source"`
}

// health is that of a node whose rules are in line with the newest snapshot,
// or not.
func (a *Agent) health(now time.Time) health {
	h := health{CurrentTime: now.UTC(), NodeEligible: true}
	if r := a.report.Load(); r != nil {
		h.LastUpdated, h.Healthy, h.Source = r.Updated.UTC(), r.Error == "", r.Source
	}
	return h
}

func (a *Agent) serveHealth(w http.ResponseWriter, _ *http.Request) {
	h := a.health(time.Now())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !h.Healthy {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(h)
}
