package run

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// serving runs serve on a listener of its own until stop, which returns what
// it ended with.
func serving(t *testing.T, serve func(context.Context, net.Listener) error) (address string, stop func() error) {
	t.Helper()
	l := listenTCP(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, l) }()
	return l.Addr().String(), func() error { cancel(); return <-done }
}

func TestServeHTTP(t *testing.T) {
	begun := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	mux.HandleFunc("GET /slow", func(_ http.ResponseWriter, r *http.Request) { close(begun); <-r.Context().Done() })
	address, stop := serving(t, ServeHTTP(mux))
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	if body := get(t, client, "http://"+address+"/", 200); body != "hello" {
		t.Errorf("answer %q", body)
	}
	cut := make(chan error, 1)
	go func() {
		r, err := client.Get("http://" + address + "/slow")
		if err == nil {
			_ = r.Body.Close()
		}
		cut <- err
	}()
	<-begun
	if err := stop(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if err := <-cut; err == nil {
		t.Error("the request under way was not cut")
	}
}

func TestServeHTTPBoundsHeaders(t *testing.T) {
	address, stop := serving(t, ServeHTTP(http.NotFoundHandler()))
	defer stop()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nX: ")
		_, _ = conn.Write(bytes.Repeat([]byte("x"), 64<<10))
	}()
	answer := make([]byte, 12)
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "HTTP/1.1 431" {
		t.Errorf("answer %q, %v", answer, err)
	}
}

func TestServeHTTPGivesUpWithItsListener(t *testing.T) {
	l := listenTCP(t)
	_ = l.Close()
	if err := ServeHTTP(http.NotFoundHandler())(t.Context(), l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

// A stream that never ends, as xDS's, does not keep the server.
func TestServeGRPC(t *testing.T) {
	s := grpc.NewServer()
	healthpb.RegisterHealthServer(s, health.NewServer())
	address, stop := serving(t, ServeGRPC(s))
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := stop(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if took := time.Since(began); took < grpcDrain {
		t.Errorf("the stream was cut after %s, it has %s", took, grpcDrain)
	}
	if _, err := stream.Recv(); err == nil {
		t.Error("the stream goes on")
	}
}

func TestServeGRPCGivesUpWithItsListener(t *testing.T) {
	l := listenTCP(t)
	_ = l.Close()
	if err := ServeGRPC(grpc.NewServer())(t.Context(), l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

func get(t *testing.T, client *http.Client, url string, code int) (body string) {
	t.Helper()
	r, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != code {
		t.Errorf("%s: %s, %v: %s", url, r.Status, err, data)
	}
	return string(data)
}
