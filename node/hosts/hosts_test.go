package hosts

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/latest"
	"github.com/gridmesh/gridmesh/internal/quiet"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/topology"
)

// ordinals is a headless Service of a StatefulSetGrid with one pod in unit a.
func ordinals(addr string) *nodetest.Objects {
	o := nodetest.NewObjects()
	keys, key := `["unit"]`, topology.ObjectKey{Namespace: "default", Name: "db-svc"}
	o.Builder().SetService(&topology.Service{
		Key: key, Headless: true, GridKey: "unit", TopologyKeys: &keys,
		Ports: []topology.ServicePort{{Name: "db", Protocol: topology.TCP, Port: 5432}},
	})
	o.Builder().SetSlice(&topology.Slice{
		Key: key, Service: key.Name, Ports: []topology.SlicePort{{Name: "db", Protocol: topology.TCP, Port: 5432}},
		Endpoints: []topology.Endpoint{{Addr: netip.MustParseAddr(addr), Node: "a-2", Hostname: "db-a-0", Ready: true, Serving: true}},
	})
	return o
}

// The file follows what is whole, a batch at a time, and is tried again.
func TestFileFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "late")
		var log testkit.Output
		var snapshots latest.Value[*topology.Snapshot]
		f := File{Path: filepath.Join(dir, "hosts"), Domain: "cluster.local", Node: "a-1", Log: slog.New(slog.NewTextHandler(&log, nil))}
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go func() {
			if err := f.Keep(ctx, &snapshots); err != nil {
				t.Error(err)
			}
		}()
		after := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}

		partial := *ordinals("10.244.2.4").Snapshot()
		partial.Partial = true
		snapshots.Publish(&partial)
		after(batch)
		if log.String() != "" {
			t.Errorf("written from a snapshot that is not whole: %s", &log)
		}
		snapshots.Publish(ordinals("10.244.2.5").Snapshot())
		after(batch)
		if log.Count("the hosts file cannot be written; trying again") != 1 {
			t.Errorf("a directory that is not there was not said: %s", &log)
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		has := func(when, addr string) {
			t.Helper()
			data, err := os.ReadFile(f.Path)
			if err != nil || !strings.Contains(string(data), addr) || !strings.Contains(string(data), "db-0.db-svc.default.svc.cluster.local") {
				t.Errorf("%s: %v, %q", when, err, data)
			}
		}
		after(retryAfter + batch)
		has("tried again", "10.244.2.5")
		snapshots.Publish(ordinals("10.244.2.6").Snapshot())
		synctest.Wait()
		has("within a batch", "10.244.2.5")
		after(batch)
		has("changed", "10.244.2.6")
		for what, spoil := range map[string]func() error{
			"deleted": func() error { return os.Remove(f.Path) },
			"emptied": func() error { return os.Truncate(f.Path, 0) },
			"a pipe":  func() error { return errors.Join(os.Remove(f.Path), unix.Mkfifo(f.Path, 0o600)) },
		} {
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			after(2 * checkEvery)
			if info, err := os.Lstat(f.Path); err != nil || !info.Mode().IsRegular() {
				t.Fatalf("%s: %v, %v", what, info, err)
			}
			has(what, "10.244.2.6")
		}
		if n := log.Count("changed or removed by somebody else"); n != 3 {
			t.Errorf("said %d times: %s", n, &log)
		}
		before, err := os.Stat(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		after(10 * checkEvery)
		if now, err := os.Stat(f.Path); err != nil || !os.SameFile(before, now) {
			t.Errorf("written although it is right: %v", err)
		}
		// What cannot be read is nobody's change. Neither that nor what cannot be written
		// fills the log.
		if err := errors.Join(os.Rename(dir, dir+"2"), os.Symlink(dir, dir)); err != nil {
			t.Fatal(err)
		}
		after(10 * checkEvery)
		snapshots.Publish(ordinals("10.244.2.7").Snapshot())
		after(10 * checkEvery)
		for text, most := range map[string]int{"changed or removed by": 3, "cannot be read": quiet.Burst + 2, "cannot be written": 1 + quiet.Burst + 2} {
			if n := log.Count(text); n < min(most, 3) || n > most {
				t.Errorf("%q is said %d times, want up to %d: %s", text, n, most, &log)
			}
		}
		if err := errors.Join(os.Remove(dir), os.Rename(dir+"2", dir)); err != nil {
			t.Fatal(err)
		}
		after(retryAfter + batch)
		has("after all", "10.244.2.7")
	})
}
