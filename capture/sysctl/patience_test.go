package sysctl

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
)

// Who puts values back waits for no disk that hangs, and says where they are; it is
// done once the disk answers.
func TestPutBackOnADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const key = "net.ipv4.tcp_early_demux"
		s := fakeSysctls(t, map[string]string{key: "1\n"}).Patient(recordPatience)
		disk, put := make(chan struct{}), s.put
		s.put = func(path string, data []byte) error { <-disk; return put(path, data) }
		if _, err := s.Zero(key); !errors.Is(err, atomicfile.ErrLate) {
			t.Errorf("remembered: %v", err)
		}
		began := time.Now()
		if err := s.Undo(key); !errors.Is(err, atomicfile.ErrLate) || !strings.Contains(err.Error(), key) {
			t.Errorf("one: %v", err)
		}
		if err := s.Restore(); !errors.Is(err, atomicfile.ErrLate) || !strings.Contains(err.Error(), s.dir) {
			t.Errorf("all: %v", err)
		}
		if took := time.Since(began); took > recordPatience || s.value(t, key) != "0" {
			t.Errorf("after %s it is %q", took, s.value(t, key))
		}
		close(disk)
		synctest.Wait()
		if err := s.Restore(); err != nil || s.value(t, key) != "1\n" {
			t.Errorf("with the disk back: %v, %q", err, s.value(t, key))
		}
		if err := s.Undo(key); err != nil {
			t.Errorf("nothing is to be put back: %v", err)
		}
	})
}

// A disk that is slow, and no more than that, has all the time that it is given.
func TestPatience(t *testing.T) {
	for patience, late := range map[time.Duration]bool{0: true, slow: false} {
		synctest.Test(t, func(t *testing.T) {
			const key = "net.ipv4.tcp_early_demux"
			s := fakeSysctls(t, map[string]string{key: "1\n"})
			s = New(s.dir, s.root, mine).Patient(patience)
			put := s.put
			s.put = func(path string, data []byte) error {
				time.Sleep(2 * recordPatience)
				return put(path, data)
			}
			if _, err := s.Zero(key); errors.Is(err, atomicfile.ErrLate) != late {
				t.Errorf("patience %s: %v", patience, err)
			}
			time.Sleep(2 * recordPatience)
		})
	}
}
