package sysctl

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
)

// Records remember the values that were there before, so that Cleanup can
// put them back. The record is a folder with a file a key: it is written
// before the value is changed, and survives the agent.
//
// A disk may hang, or take nothing: then the value is set after some patience,
// and what is owed to the record is written as soon as the disk takes it.
type Records struct {
	dir, root string
	mine      func(key string) bool // that the record may be of
	put       func(path string, data []byte) error
	disk      chan struct{} // one slot: taken while records are written
	owed      *debt
	patience  time.Duration
}

// debt are the values before ours that no record has, by key.
type debt struct {
	mu     sync.Mutex
	values map[string][]byte
}

// recordPatience is how long a pod network waits for a record, where nobody says.
const recordPatience = 2 * time.Second

// maxRecord bounds what is read of a record. A sysctl has one number.
const maxRecord = 4 << 10

// New returns the records in dir of the sysctls below root, which is /proc/sys
// but in tests. Only those that are mine are put back: what else is in dir, whoever
// put it there, is neither read nor removed.
func New(dir, root string, mine func(key string) bool) Records {
	return Records{dir: dir, root: root, mine: mine, put: atomicfile.Write, disk: make(chan struct{}, 1), owed: &debt{values: map[string][]byte{}}, patience: recordPatience}
}

// Patient waits so long for a disk. 0 is what it is without.
func (s Records) Patient(patience time.Duration) Records {
	if patience > 0 {
		s.patience = patience
	}
	return s
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
	_, err := atomicfile.Within(s.patience, func() (struct{}, error) {
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
	if err := s.folder(); errors.Is(err, os.ErrNotExist) {
		err = os.MkdirAll(s.dir, 0o700)
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	record := filepath.Join(s.dir, fileName(key))
	_, err := read(record)
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

// folder reports an error where the records' folder is not there as one: what a link
// leads to is somebody else's.
func (s Records) folder() error {
	info, err := os.Lstat(s.dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s %w: its mode is %v; remove it", s.dir, atomicfile.ErrOdd, info.Mode())
	}
	return err
}

// read reads a record. What holds no number that a switch of the kernel may have is
// none, whoever wrote it: a disk that lost what it took leaves files that are empty, or
// full of NULs.
func read(record string) ([]byte, error) {
	value, _, err := atomicfile.Read(record, maxRecord)
	if err != nil {
		return nil, err
	}
	if _, err := strconv.ParseUint(strings.TrimSpace(string(value)), 10, 8); err != nil {
		return nil, fmt.Errorf("%s %w: it holds %.20q, and no value of a sysctl that is 0 or 1", record, atomicfile.ErrOdd, value)
	}
	return value, nil
}

// Undo puts one value back, where it was changed. A disk that hangs is waited for
// no longer than a pod network waits for a record: atomicfile.ErrLate.
func (s Records) Undo(key string) error {
	_, err := onDisk(s, func() (struct{}, error) { return struct{}{}, s.folder() })
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return s.undoOwed(key, err)
	}
	record := filepath.Join(s.dir, fileName(key))
	value, err := onDisk(s, func() ([]byte, error) { return read(record) })
	odd := errors.Is(err, atomicfile.ErrOdd)
	var aside error
	if odd {
		aside = s.setAside(record)
	}
	if owed, had := s.owed.get(key); had && (odd || errors.Is(err, os.ErrNotExist)) {
		value, err = owed, nil
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err == nil:
		err = os.WriteFile(s.path(key), value, 0o644)
	case odd:
		return errors.Join(s.guess(key, err), aside)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return errors.Join(fmt.Errorf("restore sysctl %s: %w", key, err), aside)
	}
	s.owed.paid(key)
	return errors.Join(s.remove(record), aside)
}

// undoOwed is Undo where the records' folder cannot be read, or is none: what was never
// written down is known all the same, and of the rest nobody knows whether there
// is any.
func (s Records) undoOwed(key string, folder error) error {
	value, had := s.owed.get(key)
	if !had || errors.Is(folder, atomicfile.ErrLate) { // late, the disk may take it yet
		return fmt.Errorf("restore sysctl %s: %w", key, folder)
	}
	if err := os.WriteFile(s.path(key), value, 0o644); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("restore sysctl %s: %w", key, err)
	}
	s.owed.paid(key)
	return nil
}

// usual is what the kernel begins with, of all that is set to 0.
const usual = "1"

// guess puts the usual value in the place of ours where nobody knows what was
// there before, and says so: it is an error all the same.
func (s Records) guess(key string, unknown error) error {
	now, err := os.ReadFile(s.path(key))
	if err != nil || strings.TrimSpace(string(now)) != "0" {
		return fmt.Errorf("sysctl %s stays as it is, for nobody knows what it was: %w", key, unknown)
	}
	if err := os.WriteFile(s.path(key), []byte(usual), 0o644); err != nil {
		return errors.Join(fmt.Errorf("set sysctl %s=%s: %w", key, usual, err), unknown)
	}
	return fmt.Errorf("nobody knows what sysctl %s was; it is %s now, as the kernel begins with; set it where it should be another: %w", key, usual, unknown)
}

// Holds reports whether there is, or may be, a value that Undo puts back.
func (s Records) Holds(key string) bool {
	if _, had := s.owed.get(key); had {
		return true
	}
	_, err := onDisk(s, func() (os.FileInfo, error) { return os.Lstat(filepath.Join(s.dir, fileName(key))) })
	return !errors.Is(err, os.ErrNotExist)
}

// Restore puts all values back but of some. What is among the records and is none stays
// there, and keeps no other from being put back.
func (s Records) Restore(but ...string) error {
	entries, err := onDisk(s, func() ([]os.DirEntry, error) {
		if err := s.folder(); err != nil {
			return nil, err
		}
		return os.ReadDir(s.dir)
	})
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, atomicfile.ErrOdd):
		err = nil
	case err != nil:
		err = fmt.Errorf("put sysctls back, as they are written down in %s: %w", s.dir, err)
	}
	errs := []error{err}
	for _, e := range entries {
		switch key, left := s.keyOf(e.Name()); {
		case left: // a record that was never finished, so that nothing was changed, or none
			errs = append(errs, s.remove(filepath.Join(s.dir, e.Name())))
		case key != "" && !slices.Contains(but, key):
			errs = append(errs, s.Undo(key))
		}
	}
	for key := range s.owed.all() {
		if !slices.Contains(but, key) {
			errs = append(errs, s.Undo(key))
		}
	}
	return errors.Join(errs...)
}

// keyOf is the key that a file among the records is about, empty where it is none of
// ours; left of one that was set aside, or that a writer left.
func (s Records) keyOf(name string) (key string, left bool) {
	record, aside := strings.CutSuffix(name, atomicfile.Aside(""))
	record, left = atomicfile.Of(record)
	key = strings.ReplaceAll(record, "%", "/")
	if file := relative(key); !s.mine(key) || filepath.Clean(file) != file || !strings.HasPrefix(file, "net/") {
		return "", false
	}
	return key, left || aside
}

// path is the file of a key such as "net.ipv4.conf.cni0.send_redirects".
// An interface with a dot in its name writes it as "/", as in sysctl(8).
func (s Records) path(key string) string {
	return filepath.Join(s.root, relative(key))
}

func relative(key string) string { return strings.NewReplacer(".", "/", "/", ".").Replace(key) }

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
