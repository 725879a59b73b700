package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
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
	return func() (net.Listener, error) {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", address, err)
		}
		return l, nil
	}
}

func (h httpServer) serve(ctx context.Context, l net.Listener) error {
	s := &http.Server{Handler: h.handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
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
