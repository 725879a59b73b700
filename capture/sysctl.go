package capture

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// sysctls remembers the values that were there before, so that Cleanup can
// put them back. The record is a folder with a file a key: it is written
// before the value is changed, and survives the agent.
type sysctls struct{ dir, root string }

func (s sysctls) set(key, value string) error {
	path := s.path(key)
	now, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the module that owns it is not loaded: nothing to change
	}
	if err != nil {
		return fmt.Errorf("read sysctl %s: %w", key, err)
	}
	if strings.TrimSpace(string(now)) == value {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("remember sysctl %s: %w", key, err)
	}
	record := filepath.Join(s.dir, fileName(key))
	if _, err := os.Stat(record); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(record, now, 0o600); err != nil {
			return fmt.Errorf("remember sysctl %s: %w", key, err)
		}
	}
	if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
		return fmt.Errorf("set sysctl %s=%s: %w", key, value, err)
	}
	return nil
}

func (s sysctls) restore() error {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		record := filepath.Join(s.dir, e.Name())
		value, err := os.ReadFile(record)
		if err == nil {
			err = os.WriteFile(s.path(strings.ReplaceAll(e.Name(), "%", "/")), value, 0o644)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("restore sysctl %s: %w", e.Name(), err))
			continue
		}
		errs = append(errs, os.Remove(record))
	}
	return errors.Join(errs...)
}

// path is the file of a key such as "net.ipv4.conf.cni0.send_redirects".
// An interface with a dot in its name writes it as "/", as in sysctl(8).
func (s sysctls) path(key string) string {
	return filepath.Join(s.root, strings.NewReplacer(".", "/", "/", ".").Replace(key))
}

func fileName(key string) string { return strings.ReplaceAll(key, "/", "%") }
