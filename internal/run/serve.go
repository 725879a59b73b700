package run

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// ServeHTTP returns what answers on a listener until its context ends. What a
// client may send, how long that may take, and how long an answer, is bounded;
// how many there are at once is the listener's (Bound).
func ServeHTTP(h http.Handler) func(ctx context.Context, l net.Listener) error {
	return func(ctx context.Context, l net.Listener) error {
		s := &http.Server{
			Handler: h, ReadHeaderTimeout: 3 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 10 * time.Second,
			MaxHeaderBytes: 8 << 10, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 16},
		}
		defer s.Close()
		stop := context.AfterFunc(ctx, func() { _ = s.Close() })
		defer stop()
		if err := s.Serve(l); ctx.Err() == nil {
			return err
		}
		return nil
	}
}

// AddHTTP listens on a TCP address and adds what answers there. An empty
// address adds nothing.
func (g *Group) AddHTTP(name, address string, h http.Handler, log *slog.Logger) error {
	if address == "" {
		return nil
	}
	l, err := ListenTCP(address, log)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	g.AddListener(name, l, ServeHTTP(h))
	return nil
}

// ServeHTTPS is ServeHTTP over TLS; HTTP/2 where the configuration offers it, as
// that of a Certificate does.
func ServeHTTPS(cfg *tls.Config, h http.Handler) func(ctx context.Context, l net.Listener) error {
	return func(ctx context.Context, l net.Listener) error {
		return ServeHTTP(h)(ctx, tls.NewListener(l, cfg))
	}
}

// GRPCServer is *grpc.Server, which this package does not import.
type GRPCServer interface {
	Serve(l net.Listener) error
	GracefulStop()
	Stop()
}

// grpcDrain is how long calls under way may take to end. Streams that never
// end, as those of xDS, are cut after it.
const grpcDrain = 250 * time.Millisecond

// ServeGRPC returns what serves s on a listener until its context ends, and
// then lets calls under way end, for a moment.
func ServeGRPC(s GRPCServer) func(ctx context.Context, l net.Listener) error {
	return func(ctx context.Context, l net.Listener) error {
		stopped := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(stopped)
			drain(s)
		})
		err := s.Serve(l)
		if stop() { // ctx goes on: the server gave up
			s.Stop()
			return err
		}
		<-stopped
		return nil
	}
}

func drain(s GRPCServer) {
	cut := time.AfterFunc(grpcDrain, s.Stop)
	defer cut.Stop()
	s.GracefulStop()
}
