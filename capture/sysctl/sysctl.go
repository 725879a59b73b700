package sysctl

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
)

// Records remember the values that were there before, so that Cleanup can
// put them back. The record is a folder with a file a key: it is written
// before the value is changed, and survives the agent.
//
// A disk may hang, or take nothing: then the value is set after recordPatience,
// and what is owed to the record is written as soon as the disk takes it.
type Records struct {
	dir, root string
	put       func(path string, data []byte) error
	disk      chan struct{} // one slot: taken while records are written
	owed      *debt
}

// debt are the values before ours that no record has, by key.
type debt struct {
	mu     sync.Mutex
	values map[string][]byte
}

// recordPatience is how long a pod network waits for a record.
const recordPatience = 2 * time.Second

// maxRecord bounds what is read of a record. A sysctl has one number.
const maxRecord = 4 << 10

func New(dir, root string) Records {
	return Records{dir: dir, root: root, put: atomicfile.Write, disk: make(chan struct{}, 1), owed: &debt{values: map[string][]byte{}}}
}

// Zero sets a value to 0 and reports whether it was another. That it could not
// be remembered is an error, but the value is set: pods need it.
func (s Records) Zero(key string) (changed bool, err error) {
	path := s.path(key)
	now, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // the module that owns it is not loaded: nothing to change
	}
	if err != nil {
		return false, fmt.Errorf("read sysctl %s: %w", key, err)
	}
	if strings.TrimSpace(string(now)) == "0" {
		if !s.owed.none() {
			_ = s.settle() // said when it began
		}
		return false, nil
	}
	s.owed.add(key, now)
	forgotten := s.settle()
	if forgotten != nil {
		forgotten = fmt.Errorf("until the disk takes it, cleanup will not set sysctl %s to %s again: %w", key, strings.TrimSpace(string(now)), forgotten)
	}
	if err := os.WriteFile(path, []byte("0"), 0o644); err != nil {
		return false, errors.Join(fmt.Errorf("set sysctl %s=0: %w", key, err), forgotten)
	}
	return true, forgotten
}

// settle writes down what is owed, as long as the disk takes it soon. Nobody
// waits a second time for one that hangs.
func (s Records) settle() error {
	select {
	case s.disk <- struct{}{}:
	default:
		return atomicfile.ErrLate // on what was owed before, which it still has to take
	}
	_, err := atomicfile.Within(recordPatience, func() (struct{}, error) {
		defer func() { <-s.disk }()
		var errs []error
		for key, value := range s.owed.all() {
			err := s.record(key, value)
			if err == nil {
				s.owed.paid(key)
			}
			errs = append(errs, err)
		}
		return struct{}{}, errors.Join(errs...)
	}, nil)
	return err
}

// record writes down the value that was there before any of ours.
func (s Records) record(key string, value []byte) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	record := filepath.Join(s.dir, fileName(key))
	_, _, err := atomicfile.Read(record, maxRecord)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case errors.Is(err, atomicfile.ErrOdd): // in the place of a record, and none
		if _, err := atomicfile.SetAside(record); err != nil {
			return err
		}
	default:
		return err
	}
	return s.put(record, value)
}

// Undo puts one value back, where it was changed.
func (s Records) Undo(key string) error {
	record := filepath.Join(s.dir, fileName(key))
	value, _, err := atomicfile.Read(record, maxRecord)
	if owed, had := s.owed.get(key); had && errors.Is(err, os.ErrNotExist) {
		value, err = owed, nil
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case errors.Is(err, atomicfile.ErrOdd):
		_, aside := atomicfile.SetAside(record)
		return errors.Join(fmt.Errorf("sysctl %s stays as it is, for nobody knows what it was: %w", key, err), aside)
	case err == nil:
		err = os.WriteFile(s.path(key), value, 0o644)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("restore sysctl %s: %w", key, err)
	}
	s.owed.paid(key)
	if err := os.Remove(record); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (s Records) Restore() error {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	errs := []error{err}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || strings.HasSuffix(e.Name(), ".bad") { // a record that was never finished, so that nothing was changed, or none
			errs = append(errs, os.RemoveAll(filepath.Join(s.dir, e.Name())))
			continue
		}
		errs = append(errs, s.Undo(strings.ReplaceAll(e.Name(), "%", "/")))
	}
	for key := range s.owed.all() {
		errs = append(errs, s.Undo(key))
	}
	return errors.Join(errs...)
}

// path is the file of a key such as "net.ipv4.conf.cni0.send_redirects".
// An interface with a dot in its name writes it as "/", as in sysctl(8).
func (s Records) path(key string) string {
	return filepath.Join(s.root, strings.NewReplacer(".", "/", "/", ".").Replace(key))
}

func fileName(key string) string { return strings.ReplaceAll(key, "/", "%") }

func (d *debt) add(key string, value []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, had := d.values[key]; !had {
		d.values[key] = value
	}
}

func (d *debt) get(key string) ([]byte, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	value, had := d.values[key]
	return value, had
}

func (d *debt) paid(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.values, key)
}

func (d *debt) all() map[string][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.values)
}

func (d *debt) none() bool { return len(d.all()) == 0 }
