package capture

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
)

// sysctls remembers the values that were there before, so that Cleanup can
// put them back. The record is a folder with a file a key: it is written
// before the value is changed, and survives the agent.
//
// A disk may hang: then the value is set after recordPatience, the record is
// written when the disk is back, and other values meanwhile have none.
type sysctls struct {
	dir, root string
	put       func(path string, data []byte) error
	disk      chan struct{} // one slot: taken while a record is written
}

// recordPatience is how long a pod network waits for a record.
const recordPatience = 2 * time.Second

var errHangs = errors.New("the disk does not answer")

func newSysctls(dir, root string) sysctls {
	return sysctls{dir: dir, root: root, put: atomicfile.Write, disk: make(chan struct{}, 1)}
}

// zero sets a value to 0 and reports whether it was another. That it could not
// be remembered is an error, but the value is set: pods need it.
func (s sysctls) zero(key string) (changed bool, err error) {
	path := s.path(key)
	now, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // the module that owns it is not loaded: nothing to change
	}
	if err != nil {
		return false, fmt.Errorf("read sysctl %s: %w", key, err)
	}
	if strings.TrimSpace(string(now)) == "0" {
		return false, nil
	}
	forgotten := s.remember(key, now)
	if forgotten != nil {
		forgotten = fmt.Errorf("cleanup will not set sysctl %s to %s again: %w", key, strings.TrimSpace(string(now)), forgotten)
	}
	if err := os.WriteFile(path, []byte("0"), 0o644); err != nil {
		return false, errors.Join(fmt.Errorf("set sysctl %s=0: %w", key, err), forgotten)
	}
	return true, forgotten
}

// remember records the value that was there before any of ours, as long as the
// disk takes it soon.
func (s sysctls) remember(key string, value []byte) error {
	select {
	case s.disk <- struct{}{}:
	default:
		return errHangs // as it did for another record, which it still has to take
	}
	done := make(chan error, 1)
	go func() {
		err := s.record(key, value)
		<-s.disk
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(recordPatience):
		return errHangs
	}
}

func (s sysctls) record(key string, value []byte) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	record := filepath.Join(s.dir, fileName(key))
	if _, err := os.Stat(record); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return s.put(record, value)
}

// undo puts one value back, where it was changed.
func (s sysctls) undo(key string) error {
	record := filepath.Join(s.dir, fileName(key))
	value, err := os.ReadFile(record)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.WriteFile(s.path(key), value, 0o644)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("restore sysctl %s: %w", key, err)
	}
	return os.Remove(record)
}

func (s sysctls) restore() error {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") { // a record that was never finished: nothing was changed
			errs = append(errs, os.Remove(filepath.Join(s.dir, e.Name())))
			continue
		}
		errs = append(errs, s.undo(strings.ReplaceAll(e.Name(), "%", "/")))
	}
	return errors.Join(errs...)
}

// path is the file of a key such as "net.ipv4.conf.cni0.send_redirects".
// An interface with a dot in its name writes it as "/", as in sysctl(8).
func (s sysctls) path(key string) string {
	return filepath.Join(s.root, strings.NewReplacer(".", "/", "/", ".").Replace(key))
}

func fileName(key string) string { return strings.ReplaceAll(key, "/", "%") }
