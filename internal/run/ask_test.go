package run

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAskUnix(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	var answer struct {
		Node string `json:"node"`
	}
	if err := AskUnix(t.Context(), socket, "/status", &answer); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), socket) {
		t.Errorf("where nobody listens: %v", err)
	}
	l, err := ListenUnix(socket, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	hang := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/status", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"node":"a-1"}`)) })
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"node":"` + strings.Repeat("x", maxAnswer) + `"}`))
	})
	mux.HandleFunc("/hangs", func(http.ResponseWriter, *http.Request) { <-hang })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })

	if err := AskUnix(t.Context(), socket, "/status", &answer); err != nil || answer.Node != "a-1" {
		t.Errorf("got %+v, %v", answer, err)
	}
	if err := AskUnix(t.Context(), socket, "/nothing", &answer); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("what is not told: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := AskUnix(ctx, socket, "/hangs", &answer); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("from who does not answer: %v", err)
	}
	close(hang)
	if err := AskUnix(t.Context(), socket, "/long", &answer); err == nil || !strings.Contains(err.Error(), "read what "+socket) {
		t.Errorf("of an answer without an end: %v", err)
	}
}
