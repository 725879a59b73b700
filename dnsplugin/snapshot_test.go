package dnsplugin

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/dnsplugin/answer"
	"github.com/gridmesh/gridmesh/source"
)

// A disk that hangs keeps nobody from answering: not where the snapshot is read,
// nor where it is written. What comes late is older than what the source says, and
// is not written over before it was read.
func TestADiskThatHangs(t *testing.T) {
	for name, live := range map[string]bool{"no source": false, "a source": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "dns.v1")
				if err := source.NewKeeper(path, time.Second).Write(&source.State{Snapshot: units()}, time.Now()); err != nil {
					t.Fatal(err)
				}
				g, cell := plugged(answer.Config{}), &source.Snapshots{}
				g.now.Store(nil)
				g.feed, g.cfg.snapshot = fed{cell}, path
				reads, writes := make(chan struct{}), make(chan struct{})
				g.disk.read = func(path string) (*source.State, error) { <-reads; return source.ReadState(path) }
				g.disk.write = func(k *source.Keeper, st *source.State, now time.Time) error {
					<-writes
					return realDisk.write(k, st, now)
				}
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan struct{})
				go func() { defer close(ended); g.follow(ctx) }()
				from := func() origin {
					synctest.Wait()
					if now := g.now.Load(); now != nil {
						return now.from
					}
					return ""
				}
				if from() != "" {
					t.Errorf("answers are from the %s", from())
				}
				if live {
					cell.Publish(units())
					if from() != fromSource {
						t.Errorf("while the disk hangs, answers are from %q", from())
					}
					must(t, os.Chtimes(path, time.Now().Add(-time.Hour), time.Now().Add(-time.Hour)))
					before := modified(t, path)
					time.Sleep(3 * snapshotEvery)
					if !modified(t, path).Equal(before) {
						t.Error("it was written over before it was read")
					}
				}
				close(reads)
				if want := map[bool]origin{true: fromSource, false: fromSnapshot}[live]; from() != want {
					t.Errorf("once the snapshot is read, answers are from %q, want %q", from(), want)
				}
				cell.Publish(units())
				time.Sleep(3 * snapshotEvery) // a write hangs
				cell.Publish(units())
				if from() != fromSource {
					t.Errorf("while a write hangs, answers are from %q", from())
				}
				begin := time.Now()
				cancel()
				<-ended
				if took := time.Since(begin); took > time.Second {
					t.Errorf("the end waited for %s", took)
				}
				close(writes)
				synctest.Wait()
			})
		})
	}
}

func modified(t *testing.T, path string) time.Time {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.ModTime()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
