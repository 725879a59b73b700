package statedir

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/run"
)

// A directory that another process has is named, with what to do; it is had as
// soon as that one dies, however it does.
func TestTheLockOfAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	other := exec.CommandContext(t.Context(), os.Args[0])
	other.Env = append(os.Environ(), lockChild+"="+dir)
	in, err := other.StdinPipe() // it ends with this process, at the latest
	must(t, err)
	defer in.Close()
	out, err := other.StdoutPipe()
	must(t, err)
	must(t, other.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	_, err = Lock(dir)
	if !errors.Is(err, run.ErrInUse) || DiskFails(err) || !strings.Contains(err.Error(), "another gridmesh-agent, or a cleanup, runs with --state-dir "+dir) || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("error %v", err)
	}
	must(t, other.Process.Kill())
	_ = other.Wait() // it was killed
	unlock, err := Lock(dir)
	must(t, err)
	unlock()
}

// What is no disk's fault is a mistake in --state-dir.
func TestDiskFails(t *testing.T) {
	for err, want := range map[error]bool{
		unix.EROFS: true, unix.ENOSPC: true, unix.EDQUOT: true, unix.EIO: true, unix.EUCLEAN: true,
		unix.ENOTDIR: false, unix.EACCES: false, atomicfile.ErrLate: false, run.ErrInUse: false,
	} {
		wrapped := fmt.Errorf("lock it: %w", &os.PathError{Op: "open", Path: "lock", Err: err})
		if DiskFails(wrapped) != want {
			t.Errorf("%v: %v, want %v", err, !want, want)
		}
		if got := Cause(wrapped); errors.As(err, new(unix.Errno)) && got != err.Error() {
			t.Errorf("the cause of %q is %q", wrapped, got)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := Lock(file); err == nil || DiskFails(err) || errors.Is(err, run.ErrInUse) {
		t.Errorf("a file for a directory: %v", err)
	}
}

// hung is a disk that gives a lock once it is let, and counts.
type hung struct {
	answer          chan error
	asked, unlocked atomic.Int64
}

func (h *hung) take(string) (func(), error) {
	h.asked.Add(1)
	if err := <-h.answer; err != nil {
		return nil, err
	}
	return func() { h.unlocked.Add(1) }, nil
}

// A disk that hangs costs a start its patience and no more. What it gives later is
// had then, what it refuses is told, and after the end it is let go of.
func TestALockThatComesLate(t *testing.T) {
	for name, tc := range map[string]struct {
		ended    bool
		answer   error
		told     []error
		unlocked int64 // by the end
	}{
		"had":           {told: []error{atomicfile.ErrLate, nil}, unlocked: 1},
		"after the end": {ended: true, told: []error{atomicfile.ErrLate}, unlocked: 1},
		"refused":       {answer: run.ErrInUse, told: []error{atomicfile.ErrLate, run.ErrInUse}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &hung{answer: make(chan error)}
				var told []error
				d := New("dir", func(err error) { told = append(told, err) })
				d.TakeLock = h.take
				began := time.Now()
				if err := d.Lock(StartPatience); !errors.Is(err, atomicfile.ErrLate) || time.Since(began) != StartPatience {
					t.Errorf("after %s: %v", time.Since(began), err)
				}
				d.LockLate() // nobody asks a second time meanwhile
				if tc.ended {
					d.Unlock()
				}
				h.answer <- tc.answer
				synctest.Wait()
				if d.Others() != (tc.answer != nil) || !slices.Equal(told, tc.told) {
					t.Errorf("another's: %v, told %v, want %v", d.Others(), told, tc.told)
				}
				d.Unlock()
				d.Unlock()
				if h.asked.Load() != 1 || h.unlocked.Load() != tc.unlocked {
					t.Errorf("asked %d times, unlocked %d times", h.asked.Load(), h.unlocked.Load())
				}
			})
		})
	}
}

// A lock that a start did not get is asked for again, once at a time, until it is
// had or this process ends.
func TestLockLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hung{answer: make(chan error)}
		var told []error
		d := New("dir", func(err error) { told = append(told, err) })
		d.TakeLock = h.take
		d.LockLate() // there is no fault
		synctest.Wait()
		if h.asked.Load() != 0 {
			t.Error("a lock was asked for that nobody misses")
		}
		d.Took(keptLock, unix.EROFS)
		for _, answer := range []error{unix.EROFS, nil} {
			d.LockLate()
			d.LockLate()
			h.answer <- answer
			synctest.Wait()
		}
		d.LockLate() // it is had
		d.Unlock()
		d.Took(keptLock, unix.EROFS)
		d.LockLate() // it has ended
		synctest.Wait()
		if want := []error{unix.EROFS, unix.EROFS, nil, unix.EROFS}; !slices.Equal(told, want) || h.asked.Load() != 2 || h.unlocked.Load() != 1 {
			t.Errorf("told %v, asked %d times, unlocked %d times", told, h.asked.Load(), h.unlocked.Load())
		}
	})
}

// The first fault there is, is told with each change, and that there is none once.
func TestFaults(t *testing.T) {
	var told []error
	d := New("dir", func(err error) { told = append(told, err) })
	for _, step := range []struct {
		what Kept
		err  error
	}{{KeptState, nil}, {KeptNote, unix.ENOSPC}, {KeptState, unix.EIO}, {KeptNote, nil}, {KeptNote, nil}, {KeptState, nil}, {KeptState, nil}} {
		d.Took(step.what, step.err)
	}
	if want := []error{unix.ENOSPC, unix.EIO, unix.EIO, nil}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}
