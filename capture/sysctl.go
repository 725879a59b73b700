package capture

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
)

// sysctls remembers the values that were there before, so that Cleanup can
// put them back. The record is a folder with a file a key: it is written
// before the value is changed, and survives the agent.
type sysctls struct{ dir, root string }

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

// remember records the value that was there before any of ours.
func (s sysctls) remember(key string, value []byte) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	record := filepath.Join(s.dir, fileName(key))
	if _, err := os.Stat(record); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return atomicfile.Write(record, value)
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
