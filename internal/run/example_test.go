package run_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"github.com/gridmesh/gridmesh/internal/run"
)

// A program opens its listeners, adds what it does to a group, and runs it until
// it is told to stop. This one asks itself how it is, and then stops.
func Example() {
	dir, err := os.MkdirTemp("", "run")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	socket := filepath.Join(dir, "status.sock")
	loop := func(ctx context.Context) error {
		var status string
		if err := run.AskUnix(ctx, socket, "/status", &status); err != nil {
			return err
		}
		fmt.Println(status)
		stop()
		return nil
	}
	if err := program(ctx, socket, loop); err != nil {
		fmt.Println(err)
	}
	// Output: all is well
}

// program serves its status while it does its work.
func program(ctx context.Context, socket string, loop func(context.Context) error) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `"all is well"`) })
	var g run.Group
	defer g.Close()
	l, err := run.ListenUnix(socket, slog.Default())
	if err != nil {
		return err
	}
	g.AddListener("status", l, run.ServeHTTP(mux))
	g.Add("loop", loop)
	return g.Run(ctx)
}
