package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gridmesh/gridmesh/internal/run"
)

type httpServer struct {
	name    string
	listen  func() (net.Listener, error)
	handler http.Handler
}

// httpServers lists every HTTP listener. Only health may be open to others.
func (a *agent) httpServers() []httpServer {
	status := http.NewServeMux()
	status.HandleFunc("GET /status", a.serveStatus)
	list := []httpServer{{"status", func() (net.Listener, error) { return listenUnix(a.cfg.statusSocket) }, status}}
	if a.cfg.healthz != "" {
		health := http.NewServeMux()
		health.HandleFunc("GET /healthz", a.serveHealth)
		health.HandleFunc("GET /livez", a.serveHealth)
		list = append(list, httpServer{"healthz", listenTCP(a.cfg.healthz), health})
	}
	if a.cfg.metrics != "" {
		metrics := http.NewServeMux()
		metrics.Handle("GET /metrics", promhttp.HandlerFor(a.metrics.registry, promhttp.HandlerOpts{}))
		metrics.HandleFunc("GET /healthz", a.serveHealth)
		metrics.HandleFunc("GET /proxyMode", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, a.cfg.datapath) })
		list = append(list, httpServer{"metrics", listenTCP(a.cfg.metrics), metrics})
	}
	return list
}

func listenTCP(address string) func() (net.Listener, error) {
	return func() (net.Listener, error) { return run.ListenTCP(address) }
}

// serveHealth answers as kube-proxy's does: healthy when rules are in line
// with the newest snapshot.
func (a *agent) serveHealth(w http.ResponseWriter, _ *http.Request) {
	r := a.state.get()
	healthy := r.Node != "" && r.Error == ""
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !healthy {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"lastUpdated": r.Updated.UTC(), "currentTime": time.Now().UTC(), "nodeEligible": true, "healthy": healthy, "source": r.Source,
	})
}
