package admission

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/gridmesh/gridmesh/internal/run"
)

// How the listener is bound. API servers speak HTTP/1.1 to webhooks, a connection a call
// at a time (kubernetes/kubernetes#75791): so nothing else is spoken, and these bound the calls,
// too. And the controller manager has dozens under way: one connection too many would end
// another's call.
var limits = run.Limits{InAll: 512, OfPeer: 256}

const (
	// idle is longer than a client keeps a connection that it does not use (client-go: 90 s). Were it
	// shorter, a call might meet the end of its connection, and a POST is not sent again.
	idle = 3 * time.Minute
	// drain is how long calls under way may take to end.
	drain = 2 * answerWithin
)

// Listen listens on a TCP address for API servers.
func Listen(address string, log *slog.Logger) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return run.BoundTo(l, limits, log), nil
}

// Serve returns what answers on a listener until its context ends, and then lets calls
// under way end.
func Serve(cfg *tls.Config, h http.Handler, log *slog.Logger) func(ctx context.Context, l net.Listener) error {
	return func(ctx context.Context, l net.Listener) error {
		s := &http.Server{
			Handler: h, ReadHeaderTimeout: 3 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: idle, MaxHeaderBytes: 8 << 10,
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), // of each handshake that fails, a line
		}
		defer s.Close()
		drained := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(drained)
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
			defer cancel()
			_ = s.Shutdown(end) // who is not done then is cut off
		})
		err := s.Serve(tls.NewListener(l, oneCall(cfg)))
		if stop() { // ctx goes on: the server gave up
			return err
		}
		<-drained
		if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
			return nil
		}
		return err
	}
}

// oneCall is a configuration by which a connection has one call at a time: HTTP/1.1.
func oneCall(cfg *tls.Config) *tls.Config {
	cfg = cfg.Clone()
	cfg.NextProtos = []string{"http/1.1"}
	if each := cfg.GetConfigForClient; each != nil {
		cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			of, err := each(hello)
			if err != nil || of == nil {
				return nil, err
			}
			return oneCall(of), nil
		}
	}
	return cfg
}
