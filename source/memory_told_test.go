package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
)

// running has a directory run for a while in time that costs none.
func running(t *testing.T, d *Dir, then func(d *Dir)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		then(d)
		cancel()
		must(t, <-done)
	})
}

// Whoever is told what becomes of it hears that it is not kept, and that it is.
func TestWhoIsToldOfTheMemory(t *testing.T) {
	dir, away := t.TempDir(), filepath.Join(t.TempDir(), "away")
	write(t, dir, "w.yaml", staysWeb)
	var last atomic.Pointer[error]
	d := NewDir(dir)
	synctest.Test(t, func(t *testing.T) {
		d.Remember(filepath.Join(away, ManifestsFile), always, func(err error) { last.Store(&err) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := last.Load(); err == nil || !errors.Is(*err, os.ErrNotExist) {
			t.Errorf("there is no folder for it, and told is %v", err)
		}
		must(t, os.Mkdir(away, 0o700))
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := last.Load(); err == nil || *err != nil {
			t.Errorf("it is kept, and told is %v", *err)
		}
		cancel()
		must(t, <-done)
	})
}

// A disk that hangs while it is written says nothing: it is told all the same.
func TestAWriteThatHangs(t *testing.T) {
	hangs := make(chan struct{})
	defer close(hangs)
	var told []error
	m := memory{began: time.Now(), took: func(err error) { told = append(told, err) }, write: atomicfile.Ask(func() (struct{}, error) { <-hangs; return struct{}{}, nil })}
	m.slow(m.began, m.began.Add(memorySlow))
	if len(told) > 0 || m.told() != "" {
		t.Errorf("told is %v, %q", told, m.told())
	}
	m.slow(m.began, m.began.Add(memorySlow+1))
	m.slow(m.began, m.began.Add(memorySlow+2))
	if len(told) != 1 || !errors.Is(told[0], atomicfile.ErrLate) || !strings.Contains(m.told(), "is not kept, and after a restart") {
		t.Errorf("told is %v, %q", told, m.told())
	}
	m.wrote(nil, time.Now())
	if len(told) != 2 || told[1] != nil || m.told() != "" {
		t.Errorf("it answered: told is %v, %q", told, m.told())
	}
}

// So does one that hangs while it is read, until it answers.
func TestAReadThatHangs(t *testing.T) {
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), ManifestsFile)
	write(t, dir, "w.yaml", staysWeb)
	begun(t, dir, path).finish()
	write(t, dir, "w.yaml", staysWeb[:40])
	synctest.Test(t, func(t *testing.T) {
		var last atomic.Pointer[error]
		answer, d := make(chan struct{}), NewDir(dir)
		d.memory.read = func(path, of string) (remembers, error) { <-answer; return readMemory(path, of) }
		d.Remember(path, always, func(err error) { last.Store(&err) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !errors.Is(*last.Load(), atomicfile.ErrLate) || !strings.Contains(said(d), notKnown+atomicfile.ErrLate.Error()) {
			t.Errorf("told is %v, %s", *last.Load(), said(d))
		}
		close(answer)
		time.Sleep(time.Minute)
		synctest.Wait()
		if *last.Load() != nil || strings.Contains(said(d), notKnown) || !slices.Equal(services(d), []string{webIs}) {
			t.Errorf("it answered: told is %v, %s", *last.Load(), said(d))
		}
		cancel()
		must(t, <-done)
	})
}

// What is too large is removed, and where that fails, it is told, and tried again.
func TestWhatIsTooLargeIsRemoved(t *testing.T) {
	var told error
	m := memory{large: true, fault: errTooLarge.Error(), took: func(err error) { told = err }}
	m.wrote(syscall.EROFS, time.Now())
	if !m.due || !errors.Is(told, syscall.EROFS) || !strings.Contains(m.told(), syscall.EROFS.Error()) {
		t.Errorf("told is %v, %s", told, m.told())
	}
	m.wrote(nil, time.Now())
	if !errors.Is(told, errTooLarge) {
		t.Errorf("removed: told is %v", told)
	}
}

// However its path is written, it is the same directory. What was kept of another one is set aside, and that is told.
func TestTheMemoryOfADirectory(t *testing.T) {
	dir, other, memory := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), ManifestsFile)
	write(t, dir, "w.yaml", staysWeb)
	begun(t, dir, memory).finish()
	write(t, dir, "w.yaml", staysWeb[:40])
	t.Chdir(dir)
	for _, path := range []string{dir + "/", filepath.Join(dir, "..", filepath.Base(dir)), "."} {
		d := begun(t, path, memory)
		if got := services(d); !slices.Equal(got, []string{webIs}) || strings.Contains(said(d), "set aside") {
			t.Errorf("as %s: in force are %v: %s", path, got, said(d))
		}
		d.finish()
	}
	all, err := readMemory(memory, dir)
	all.Of += "/" // as agents of before wrote it
	must(t, errors.Join(err, writeMemory(memory, all)))
	before := begun(t, dir, memory)
	if got := services(before); !slices.Equal(got, []string{webIs}) || strings.Contains(said(before), "set aside") {
		t.Errorf("of an agent of before: in force are %v: %s", got, said(before))
	}
	before.finish()
	d := begun(t, other, memory)
	if !strings.Contains(said(d), "is of the directory "+dir+", and was set aside as "+memory+".bad") {
		t.Errorf("told is %s", said(d))
	}
	must(t, os.Rename(memory+".bad", memory))
	if got := services(begun(t, dir, memory)); !slices.Equal(got, []string{webIs}) {
		t.Errorf("put back: in force are %v", got)
	}
}

// That it is not known what was is told for as long as it may matter.
func TestWhatWasNotKnownIsForgotten(t *testing.T) {
	for text, told := range map[string]bool{staysWeb: false, staysWeb[:40]: true, "": false} {
		dir, memory := t.TempDir(), filepath.Join(t.TempDir(), ManifestsFile)
		if text != "" {
			write(t, dir, "w.yaml", text)
		}
		must(t, os.WriteFile(memory, []byte("odd"), 0o600))
		d := NewDir(dir)
		d.Remember(memory, always, func(error) {})
		running(t, d, func(d *Dir) {
			if got := said(d); strings.Contains(got, "it was set aside") != told {
				t.Errorf("%q: told is %s", text, got)
			}
		})
	}
}

// A disk that gives errors is given up in the end: then what is kept is of this run, and that is all that counts.
func TestADiskThatIsGivenUp(t *testing.T) {
	for text, told := range map[string]bool{staysWeb: false, staysWeb[:40]: true} {
		dir, path := t.TempDir(), filepath.Join(t.TempDir(), ManifestsFile)
		write(t, dir, "w.yaml", text)
		synctest.Test(t, func(t *testing.T) {
			var last atomic.Pointer[error]
			d := NewDir(dir)
			d.memory.read = func(string, string) (remembers, error) {
				return remembers{}, fmt.Errorf("%w: %w", errNotRead, syscall.EIO)
			}
			d.Remember(path, always, func(err error) { last.Store(&err) })
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- d.Run(ctx) }()
			time.Sleep(time.Minute)
			synctest.Wait()
			if !errors.Is(*last.Load(), syscall.EIO) {
				t.Errorf("%q: told is %v", text, *last.Load())
			}
			time.Sleep(memoryGiveUp + time.Minute)
			synctest.Wait()
			if got := said(d); strings.Contains(got, notKnown) != told || *last.Load() != nil {
				t.Errorf("%q: told is %v, %s", text, *last.Load(), got)
			}
			cancel()
			must(t, <-done)
		})
	}
}

// What was seen moving before the directory was away says nothing of what it does when it is back.
func TestADirectoryThatWasAway(t *testing.T) {
	d := NewDir(filepath.Join(t.TempDir(), "away"))
	d.Awaits, d.moving = true, time.Now().Add(-time.Minute)
	if err := d.refresh(); err == nil || !d.moving.IsZero() {
		t.Errorf("moving since %s: %v", d.moving, err)
	}
}
