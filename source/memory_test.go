package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func always() bool { return true }

// begun is a directory of which somebody begins to read who kept what a run before had.
func begun(t *testing.T, dir, memory string) *Dir {
	t.Helper()
	d := NewDir(dir)
	d.Remember(memory, always, func(error) {})
	d.recall()
	if err := d.refresh(); err != nil {
		t.Fatal(err)
	}
	return d
}

// services are those in force, whether they are closed, and how many ports are served.
func services(d *Dir) (list []string) {
	for key, e := range newest(&d.Snapshots).Services.All() {
		if e.Service != nil {
			list = append(list, fmt.Sprintf("%s %v %t %d", key.Name, e.Service.ClusterIPs, e.Service.TopologyKeys != nil, len(e.Service.Ports)))
		}
	}
	slices.Sort(list)
	slices.Reverse(list)
	return list
}

func said(d *Dir) string {
	s := newest(&d.Snapshots)
	text := describe(s)
	for _, p := range s.Problems {
		text += p.String() + "\n"
	}
	return text
}

// Law: over random edits, right and wrong ones, whoever ends and begins anew at any time has in force, and
// tells, what one has who runs all the while.
func TestARestartChangesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	restarts, torn := 0, 0
	for range 12 {
		dir, memory := t.TempDir(), filepath.Join(t.TempDir(), ManifestsFile)
		steady, d := NewDir(dir), begun(t, dir, memory)
		for step := range 40 {
			for _, name := range []string{"f0.yaml", "f1.yaml", "f2.yaml"} {
				if step%7 < 6 && r.IntN(3) > 0 { // else each is corrected
					continue
				}
				text, whole := randomFile(r, fmt.Sprint("x", r.IntN(2)), step%7 == 6) // objects move, too
				if !whole {
					torn++
				}
				switch write(t, dir, name, text); r.IntN(8) {
				case 0:
					must(t, os.Remove(filepath.Join(dir, name)))
				case 1:
					must(t, os.Rename(filepath.Join(dir, name), filepath.Join(dir, fmt.Sprintf("f%d.yaml", r.IntN(4)))))
				}
			}
			if err := errors.Join(steady.refresh(), d.refresh()); err != nil {
				t.Fatal(err)
			}
			if step%7 == 6 {
				if err := os.Remove(filepath.Join(dir, "f3.yaml")); err == nil {
					must(t, errors.Join(steady.refresh(), d.refresh()))
				}
				anew := NewDir(dir)
				must(t, anew.refresh())
				if got, want := said(steady), said(anew); got != want {
					t.Fatalf("step %d: all is right, and there is\n%s\nwant\n%s", step, got, want)
				}
			}
			if r.IntN(2) == 0 {
				d.finish()
				d = begun(t, dir, memory)
				restarts++
			}
			if got, want := said(d), said(steady); got != want {
				t.Fatalf("step %d: after a restart there is\n%s\nwant\n%s", step, got, want)
			}
		}
	}
	if restarts < 100 || torn < 40 {
		t.Errorf("there were %d restarts, and %d files were torn", restarts, torn)
	}
}

// randomFile has some Services, two of a name at times, and may be torn, or have no byte.
func randomFile(r *rand.Rand, prefix string, right bool) (text string, whole bool) {
	var docs []string
	for range 1 + r.IntN(4) {
		doc, _ := randomService(r, fmt.Sprintf("%s-s%d", prefix, r.IntN(3)), right)
		docs = append(docs, doc)
	}
	text = strings.Join(docs, "\n---\n")
	switch {
	case right:
	case r.IntN(6) == 0:
		return text + "\n---\n{kind: Serv", false
	case r.IntN(12) == 0:
		return "", false
	}
	return text, true
}

// What was in force stays where manifests are wrong as somebody begins, whatever it is that is wrong;
// what was removed meanwhile is removed, and what was another directory's is nothing.
func TestWhatWasInForceStaysOverARestart(t *testing.T) {
	const over = "{apiVersion: v1, kind: Service, metadata: {name: web, annotations: {topologyKeys: '[\"unit\"]'}}, spec: {clusterIP: 10.96.0.9, ports: [{port: 80}]}}\n"
	for name, tc := range map[string]struct {
		spoil func(dir string) error
		other bool // is there still
	}{
		"nothing":                  {func(string) error { return nil }, true},
		"a torn file over another": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "z.yaml"), []byte(over[:40]), 0o600) }, true},
		"an unreadable one": {func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "z.yaml")), syscall.Mkfifo(filepath.Join(dir, "z.yaml"), 0o600))
		}, true},
		"no name": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "z.yaml"), []byte(strings.Replace(over, "name: web, ", "", 1)), 0o600)
		}, true},
		"one is removed beside": {func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "z.yaml"), []byte(over[:40]), 0o600), os.Remove(filepath.Join(dir, "o.yaml")))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, memory := t.TempDir(), filepath.Join(t.TempDir(), ManifestsFile)
			write(t, dir, "a.yaml", staysWeb)
			write(t, dir, "z.yaml", over)
			write(t, dir, "o.yaml", staysOther)
			d := begun(t, dir, memory)
			d.finish()
			want := []string{"web [10.96.0.9] true 1"}
			if tc.other {
				want = append(want, "other [10.96.0.2] false 1")
			}
			must(t, tc.spoil(dir))
			d = begun(t, dir, memory)
			if got := services(d); !slices.Equal(got, want) {
				t.Errorf("in force are %v, want %v", got, want)
			}
			if info, err := os.Stat(memory); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("it is kept as %v: %v", info, err)
			}
			moved := t.TempDir()
			write(t, moved, "z.yaml", over[:40])
			if d = begun(t, moved, memory); newest(&d.Snapshots).Services.Len() != 0 {
				t.Error("what another directory had is in force")
			}
		})
	}
}

// A disk that is slow keeps nobody waiting for long, and when it tells at last, what was in force is so again;
// nothing is written over it before.
func TestWhatWasInForceComesLate(t *testing.T) {
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), ManifestsFile)
	write(t, dir, "w.yaml", staysWeb)
	begun(t, dir, path).finish()
	write(t, dir, "w.yaml", staysWeb[:40])
	write(t, dir, "o.yaml", staysOther)
	kept, err := os.ReadFile(path)
	must(t, err)
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		d := NewDir(dir)
		d.memory.read = func(path, of string) (remembers, error) { <-answer; return readMemory(path, of) }
		d.Remember(path, always, func(error) {})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		time.Sleep(memoryPatience - time.Millisecond)
		synctest.Wait()
		if s, ok := d.Get(); ok {
			t.Errorf("nobody waited for the disk: %v", s)
		}
		time.Sleep(memoryLate - 2*memoryPatience)
		synctest.Wait()
		if s, ok := d.Get(); ok {
			t.Errorf("what is wrong was believed while the disk may still tell: %v", s)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := describe(newest(&d.Snapshots)); strings.Contains(got, "web") || !strings.Contains(got, "other") {
			t.Errorf("while the disk hangs there is\n%s", got)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, kept) {
			t.Errorf("it was written over: %v", err)
		}
		close(answer)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := describe(newest(&d.Snapshots)); !strings.Contains(got, "web") || !strings.Contains(got, "other") {
			t.Errorf("when it answered there is\n%s", got)
		}
		cancel()
		must(t, <-done)
	})
}

// A disk that gives an error is asked again, and nothing is written over what it may have.
func TestWhatWasInForceCannotBeReadAtFirst(t *testing.T) {
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), ManifestsFile)
	write(t, dir, "w.yaml", staysWeb)
	begun(t, dir, path).finish()
	write(t, dir, "w.yaml", staysWeb[:40])
	write(t, dir, "o.yaml", staysOther)
	kept, err := os.ReadFile(path)
	must(t, err)
	for answers, want := range map[time.Duration][]string{
		30 * time.Second: {"web [10.96.0.1] false 1", "other [10.96.0.2] false 1"},
		5 * time.Minute:  {"web [10.96.0.1] false 1", "other [10.96.0.2] false 1"},
		time.Hour:        {"other [10.96.0.2] false 1"},
	} {
		must(t, os.WriteFile(path, kept, 0o600))
		synctest.Test(t, func(t *testing.T) {
			d, begin := NewDir(dir), time.Now()
			d.memory.read = func(path, of string) (remembers, error) {
				if time.Since(begin) < answers {
					return remembers{}, fmt.Errorf("%w: %w", errNotRead, syscall.EIO)
				}
				return readMemory(path, of)
			}
			d.Remember(path, always, func(error) {})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- d.Run(ctx) }()
			time.Sleep(min(answers, memoryGiveUp) - time.Second)
			synctest.Wait()
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, kept) {
				t.Errorf("%s: it was written over: %v", answers, err)
			}
			time.Sleep(answers)
			synctest.Wait()
			if got := services(d); !slices.Equal(got, want) {
				t.Errorf("%s: in force are %v, want %v", answers, got, want)
			}
			cancel()
			must(t, <-done)
		})
	}
}

// What cannot be kept, or was and cannot be taken apart, is told, and holds up nothing.
func TestWhatCannotBeKept(t *testing.T) {
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), ManifestsFile)
	write(t, dir, "w.yaml", staysWeb)
	want := func(d *Dir, text string) {
		t.Helper()
		if got := said(d); !strings.Contains(got, text) || !strings.Contains(got, "web") {
			t.Errorf("told is\n%s\nwant %q", got, text)
		}
	}
	begun(t, dir, path).finish()
	whole, err := os.ReadFile(path)
	must(t, err)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-9] ^= 1
	for _, data := range [][]byte{nil, []byte("odd"), []byte(MemoryMagic + "odd"), whole[:len(whole)-1], append(bytes.Clone(whole), 0), flipped} {
		must(t, os.WriteFile(path, data, 0o600))
		d := begun(t, dir, path)
		want(d, "it was set aside as "+path+".bad")
		d.finish()
		must(t, d.refresh())
		want(d, "it was set aside as "+path+".bad")
		if kept, err := readMemory(path, dir); err != nil || len(kept.Files) != 1 {
			t.Errorf("what is kept after it: %v, %v", kept, err)
		}
	}
	synctest.Test(t, func(t *testing.T) { // and is tried again
		d, away := NewDir(dir), filepath.Join(t.TempDir(), "away")
		d.Remember(filepath.Join(away, ManifestsFile), always, func(error) {})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		want(d, "is not kept, and after a restart what is wrong by then is as it was when it was kept last: ")
		must(t, os.Mkdir(away, 0o700))
		time.Sleep(time.Minute)
		synctest.Wait()
		if kept, err := readMemory(filepath.Join(away, ManifestsFile), dir); err != nil || len(kept.Files) != 1 || strings.Contains(said(d), "is not kept") {
			t.Errorf("when it can be, %v is kept: %v\n%s", kept, err, said(d))
		}
		cancel()
		must(t, <-done)
	})
}

// A link that is led elsewhere while its files are read, after which what it led to is removed, takes
// nothing away for a moment.
func TestALinkIsLedElsewhereInALook(t *testing.T) {
	top := t.TempDir()
	link := filepath.Join(top, "link")
	version := func(n int) string { return filepath.Join(top, fmt.Sprint(n)) }
	lead := func(n int) {
		must(t, os.Mkdir(version(n), 0o700))
		write(t, version(n), "w.yaml", staysWeb+"# "+fmt.Sprint(n))
		must(t, os.Symlink(version(n), link+".new"))
		must(t, os.Rename(link+".new", link))
	}
	lead(0)
	d := NewDir(link)
	must(t, d.refresh())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 1; n < 300 && !t.Failed(); n++ {
			lead(n)
			must(t, os.RemoveAll(version(n-1)))
			time.Sleep(time.Millisecond) // longer than a look takes, or none would be of one state
		}
	}()
	looks := 0
	for ended := false; !ended; looks++ {
		select {
		case <-done:
			ended = true
		default:
		}
		if must(t, d.refresh()); newest(&d.Snapshots).Services.Len() != 1 {
			t.Fatalf("look %d took the Service away", looks)
		}
	}
	t.Logf("%d looks", looks)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
