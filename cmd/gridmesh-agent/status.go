package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/obs"
	kubefeed "github.com/gridmesh/gridmesh/kube/feed"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds"
)

// maxListed bounds the problems in a status.
const maxListed = 50

// report is what "status" prints, as JSON on the status socket.
type report struct {
	Version   string             `json:"version"`
	Node      string             `json:"node"`
	Unit      map[string]string  `json:"unit"`
	Source    string             `json:"source"` // "live" or "last good state"
	APIServer *kubefeed.Health   `json:"apiServer,omitempty"`
	Pods      string             `json:"pods"`
	Services  int                `json:"services"`
	Preloaded int                `json:"preloaded"`
	Updated   time.Time          `json:"updated"`
	Error     string             `json:"error,omitempty"`
	Envoys    []xds.Stream       `json:"envoys"`
	Nacks     []xds.Nack         `json:"nacks,omitempty"`
	Findings  []capture.Finding  `json:"findings,omitempty"`
	Problems  []topology.Problem `json:"problems,omitempty"`
	More      int                `json:"moreProblems,omitempty"`
}

// status is what the loop tells the listeners.
type status struct {
	mu     sync.Mutex
	report report
}

func (s *status) set(r report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report = r
}

func (s *status) get() report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.report
}

func (s *status) failing() bool { return s.get().Error != "" }

// publish makes the loop's state visible.
func (a *agent) publish(err error) {
	r := report{
		Version: obs.Version(), Node: a.cfg.node, Unit: a.view.Viewpoint.Values, Source: "last good state",
		Pods: a.capture.Pods(), Services: a.view.Services.Len(), Preloaded: a.cat.PreloadedLen(),
		Updated: time.Now(),
	}
	if a.live {
		r.Source = "live"
	}
	if err != nil {
		r.Error = err.Error()
	}
	r.Problems, r.More = a.problems.next(a.view, a.cat)
	a.metrics.problems.Set(float64(len(r.Problems) + r.More))
	a.state.set(r)
}

func (a *agent) serveStatus(w http.ResponseWriter, _ *http.Request) {
	r := a.state.get()
	a.foundMu.Lock()
	r.Findings = slices.Clone(a.found)
	a.foundMu.Unlock()
	if a.api != nil {
		health := a.api.Health()
		r.APIServer = &health
	}
	r.Envoys, r.Nacks = a.xds.Streams(), a.xds.Nacks()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(r)
}

func printStatus(ctx context.Context, w io.Writer, c *config) error {
	if err := c.complete(false); err != nil {
		return err
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", c.statusSocket)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent/status", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("no agent answers on %s (is it running, and may you open the socket?): %w", c.statusSocket, err)
	}
	defer resp.Body.Close()
	var r report
	if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
		return fmt.Errorf("read the agent's status: %w", err)
	}
	r.print(w)
	return nil
}

// apiServer says in words how the API server answers. Bookmarks come about
// once a minute.
func apiServer(h kubefeed.Health, now time.Time) string {
	switch ago := now.Sub(h.LastContact).Round(time.Second); {
	case h.LastContact.IsZero() && h.Err == "":
		return "no answer yet"
	case h.LastContact.IsZero():
		return "unavailable since the agent started: " + h.Err
	case h.Err != "":
		return fmt.Sprintf("unavailable for %s; this node goes on with what it knows: %s", ago, h.Err)
	default:
		return fmt.Sprintf("heard %s ago", ago)
	}
}

func (r *report) print(w io.Writer) {
	line := func(key, format string, args ...any) {
		fmt.Fprintf(w, "%-11s %s\n", key, fmt.Sprintf(format, args...))
	}
	line("version", "%s", r.Version)
	line("node", "%s", r.Node)
	for key, value := range r.Unit {
		line("unit", "%s=%s", key, value)
	}
	line("source", "%s, changed %s ago", r.Source, time.Since(r.Updated).Round(time.Second))
	if r.APIServer != nil {
		line("api server", "%s", apiServer(*r.APIServer, time.Now()))
	}
	line("pods", "%s", r.Pods)
	line("services", "%d, %d clusters preloaded", r.Services, r.Preloaded)
	if r.Error != "" {
		line("error", "%s", r.Error)
	}
	if len(r.Envoys) == 0 {
		line("envoy", "not connected: captured connections are refused unless it still runs with what it holds")
	}
	for _, e := range r.Envoys {
		line("envoy", "%s, connected for %s, %d clusters", e.Version, time.Since(e.Since).Round(time.Second), e.Clusters)
	}
	for _, n := range r.Nacks {
		line("refused", "%s %s (service %s): %s", n.Type, n.Name, n.Service, n.Reason)
	}
	for _, f := range r.Findings {
		line("warning", "%s", f.Text)
	}
	for _, p := range r.Problems {
		line("problem", "%s", p)
	}
	if r.More > 0 {
		line("problem", "and %d more: gridmesh view", r.More)
	}
}
