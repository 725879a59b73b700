package sysctl

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// slow is how long a disk may take that is no subject of a test.
const slow = 10 * time.Minute

// mine are the sysctls of these tests.
func mine(key string) bool {
	return slices.Contains([]string{"net.ipv4.tcp_early_demux", "net.bridge.bridge-nf-call-iptables"}, key) || strings.HasSuffix(key, ".send_redirects")
}

// fakeSysctls are files that stand for /proc/sys.
func fakeSysctls(t *testing.T, values map[string]string) Records {
	t.Helper()
	s := New(filepath.Join(t.TempDir(), "record"), t.TempDir(), mine).Patient(slow)
	for key, value := range values {
		must(t, os.MkdirAll(filepath.Dir(s.path(key)), 0o755))
		must(t, os.WriteFile(s.path(key), []byte(value), 0o644))
	}
	return s
}

func (s Records) value(t *testing.T, key string) string {
	t.Helper()
	b, err := os.ReadFile(s.path(key))
	must(t, err)
	return string(b)
}

func TestSysctlsArePutBack(t *testing.T) {
	const plain, dotted = "net.ipv4.tcp_early_demux", "net.ipv4.conf.br/7.send_redirects"
	s := fakeSysctls(t, map[string]string{plain: "1\n", dotted: "2\n"})
	if _, err := os.Stat(filepath.Join(s.root, "net/ipv4/conf/br.7/send_redirects")); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{plain, dotted} {
		for i, want := range []bool{true, false} {
			if changed, err := s.Zero(key); changed != want || err != nil {
				t.Errorf("%s, time %d: changed %v, %v", key, i+1, changed, err)
			}
		}
	}
	// Somebody else changed it meanwhile: what was there first counts.
	must(t, os.WriteFile(s.path(plain), []byte("7\n"), 0o644))
	_, err := s.Zero(plain)
	must(t, err)
	must(t, s.Restore())
	if a, b := s.value(t, plain), s.value(t, dotted); a != "1\n" || b != "2\n" {
		t.Errorf("put back: %q and %q", a, b)
	}
	must(t, os.WriteFile(s.path(plain), []byte("5\n"), 0o644))
	must(t, s.Restore()) // once only
	if got := s.value(t, plain); got != "5\n" {
		t.Errorf("put back twice: %q", got)
	}
}

// What is not to be put back yet stays, with its record, for the next time.
func TestRestoreBut(t *testing.T) {
	const late, now = "net.ipv4.tcp_early_demux", "net.ipv4.conf.cni0.send_redirects"
	s := fakeSysctls(t, map[string]string{late: "1\n", now: "1\n"})
	for _, key := range []string{late, now} {
		_, err := s.Zero(key)
		must(t, err)
	}
	must(t, s.Restore(late))
	if a, b := s.value(t, late), s.value(t, now); a == "1\n" || b != "1\n" {
		t.Errorf("put back: %q and %q", a, b)
	}
	must(t, s.Restore())
	if a := s.value(t, late); a != "1\n" {
		t.Errorf("put back at last: %q", a)
	}
}

func TestSysctlThatIsNotThere(t *testing.T) {
	s := fakeSysctls(t, nil)
	if changed, err := s.Zero("net.bridge.bridge-nf-call-iptables"); changed || err != nil {
		t.Errorf("a module that is not loaded: changed %v, %v", changed, err)
	}
	must(t, s.Restore())
	must(t, s.Undo("net.bridge.bridge-nf-call-iptables"))
}

// A record is there before the value changes, and whole: a crash between the
// two loses nothing, and what a crash left of writing one is swept up.
func TestRecordOfASysctlSurvivesACrash(t *testing.T) {
	const key = "net.ipv4.tcp_early_demux"
	s := fakeSysctls(t, map[string]string{key: "1\n"})
	must(t, os.MkdirAll(s.dir, 0o700))
	must(t, os.WriteFile(filepath.Join(s.dir, "."+key+".tmp-123"), nil, 0o600))
	_, err := s.Zero(key)
	must(t, err)
	must(t, s.Restore())
	left, err := os.ReadDir(s.dir)
	must(t, err)
	if got := s.value(t, key); got != "1\n" || len(left) > 0 {
		t.Errorf("put back %q, left %v", got, left)
	}
}

// An interface may be gone when its sysctl is put back.
func TestSysctlOfALinkThatIsGone(t *testing.T) {
	const key = "net.ipv4.conf.cni0.send_redirects"
	s := fakeSysctls(t, map[string]string{key: "1"})
	_, err := s.Zero(key)
	must(t, err)
	must(t, os.RemoveAll(filepath.Dir(s.path(key))))
	must(t, s.Restore())
}

// A disk that hangs keeps no value from being set, nor the node from what comes
// after it; what it had to take is there when it is back.
func TestDiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const first, second = "net.ipv4.tcp_early_demux", "net.ipv4.conf.cni0.send_redirects"
		s := fakeSysctls(t, map[string]string{first: "1\n", second: "2\n"}).Patient(recordPatience)
		disk, put := make(chan struct{}), s.put
		s.put = func(path string, data []byte) error { <-disk; return put(path, data) }
		for _, key := range []string{first, second} {
			if changed, err := s.Zero(key); !changed || !errors.Is(err, atomicfile.ErrLate) || s.value(t, key) != "0" {
				t.Errorf("%s: changed %v, %v", key, changed, err)
			}
		}
		close(disk)
		synctest.Wait()
		for range 2 { // looks of the agent
			if changed, err := s.Zero(second); changed || err != nil {
				t.Errorf("when the disk is back: changed %v, %v", changed, err)
			}
		}
		next := New(s.dir, s.root, mine) // of another process
		must(t, next.Restore())
		if a, b := s.value(t, first), s.value(t, second); a != "1\n" || b != "2\n" {
			t.Errorf("put back: %q and %q", a, b)
		}
	})
}

// A disk that takes nothing is asked again, and what it never took is put back
// by the process that knows it.
func TestDiskThatTakesNoRecord(t *testing.T) {
	const key = "net.ipv4.tcp_early_demux"
	full := errors.New("no space left")
	for _, room := range []bool{false, true} {
		s := fakeSysctls(t, map[string]string{key: "1\n"})
		put := s.put
		s.put = func(string, []byte) error { return full }
		if changed, err := s.Zero(key); !changed || !errors.Is(err, full) {
			t.Errorf("changed %v, %v", changed, err)
		}
		if changed, err := s.Zero(key); changed || err != nil {
			t.Errorf("again: changed %v, %v", changed, err)
		}
		who := s
		if room {
			s.put = put
			must(t, os.WriteFile(s.path(key), []byte("3\n"), 0o644)) // somebody else's, who is not asked
			_, err := s.Zero(key)
			must(t, err)
			who = New(s.dir, s.root, mine).Patient(slow)
		}
		must(t, who.Restore())
		if got := s.value(t, key); got != "1\n" {
			t.Errorf("room %v: put back %q", room, got)
		}
	}
}

// oddRecords are what may be in the place of a record.
func oddRecords() map[string]func(path string) error {
	odd := maps.Clone(testkit.OddFiles)
	for name, content := range map[string]string{
		"nothing": "", "NULs": "\x00\x00", "a number and NULs": "1\x00\x00", "text": "on\n", "two numbers": "1 2\n", "much": strings.Repeat("1", maxRecord+1),
		"a number that is none": strings.Repeat("1", maxRecord),
	} {
		odd[name] = func(path string) error { return os.WriteFile(path, []byte(content), 0o600) }
	}
	return odd
}

// What is in the place of a record and is none holds nobody up, and is put back
// nowhere: the value is then what the kernel begins with.
func TestOddRecords(t *testing.T) {
	const key, other = "net.ipv4.tcp_early_demux", "net.ipv4.conf.cni0.send_redirects"
	for name, put := range oddRecords() {
		t.Run(name, func(t *testing.T) {
			s := fakeSysctls(t, map[string]string{key: "1\n", other: "7\n"})
			must(t, os.MkdirAll(s.dir, 0o700))
			odd := filepath.Join(s.dir, fileName(key))
			must(t, put(odd))
			for _, key := range []string{key, other} {
				if changed, err := s.Zero(key); !changed || err != nil {
					t.Errorf("changed %v, %v", changed, err)
				}
			}
			swept := func(when string) { // but for a folder with somebody's files in it
				t.Helper()
				left, err := os.ReadDir(s.dir)
				if stays := len(left) == 1 && left[0].IsDir() && name == "a directory"; len(left) > 0 && !stays || err != nil {
					t.Errorf("%s: left %v, %v", when, left, err)
				}
				must(t, os.RemoveAll(atomicfile.Aside(odd)))
			}
			must(t, s.Restore())
			if swept("of who knows"); s.value(t, key) != "1\n" {
				t.Errorf("value %q", s.value(t, key))
			}
			for _, now := range []string{"0\n", "2\n"} { // ours, and somebody else's since
				_, err := s.Zero(other)
				must(t, err)
				must(t, os.RemoveAll(odd))
				must(t, os.RemoveAll(atomicfile.Aside(odd)))
				must(t, put(odd))
				must(t, os.WriteFile(s.path(key), []byte(now), 0o644))
				if err := s.Restore(); !errors.Is(err, atomicfile.ErrOdd) || !strings.Contains(err.Error(), key) {
					t.Errorf("put back from it: %v", err)
				}
				want := map[string]string{"0\n": usual, "2\n": "2\n"}[now]
				if a, b := s.value(t, key), s.value(t, other); a != want || b != "7\n" {
					t.Errorf("from %q: %q, want %q; and another %q", now, a, want, b)
				}
			}
			must(t, s.Restore())
			swept("of who does not")
		})
	}
}

// A process that knows the value needs no record to put it back.
func TestOddRecordOfAValueThatIsKnown(t *testing.T) {
	const key = "net.ipv4.tcp_early_demux"
	s := fakeSysctls(t, map[string]string{key: "5\n"})
	put := s.put
	s.put = func(string, []byte) error { return errors.New("no space left") }
	_, err := s.Zero(key)
	if err == nil {
		t.Error("it was forgotten in silence")
	}
	s.put = put
	must(t, os.MkdirAll(s.dir, 0o700))
	must(t, os.WriteFile(filepath.Join(s.dir, fileName(key)), nil, 0o600))
	must(t, s.Undo(key))
	if got := s.value(t, key); got != "5\n" {
		t.Errorf("put back %q", got)
	}
}

// A record names a sysctl that the capture sets, or is somebody's own: neither it nor
// what it names is touched.
func TestWhatIsNoRecordStays(t *testing.T) {
	for _, name := range []string{
		"%%.%%.victim", "net.%%.%%.victim", "kernel.core_pattern", "net", "net.%%", "%.net.x", ".net.ipv4.ip_forward.tmp-1", ".hidden",
		"net.ipv4.ip_forward", "net.ipv4.ip_forward.bad", "net.ipv4.conf.cni0.rp_filter", "notes.bad",
	} {
		s := fakeSysctls(t, map[string]string{"net.ipv4.tcp_early_demux": "1\n"})
		s.root = filepath.Join(s.root, "a", "b")
		for _, victim := range []string{"kernel/core_pattern", "../../victim", "../victim", "net/ipv4/ip_forward", "net/ipv4/conf/cni0/rp_filter"} {
			victim = filepath.Join(s.root, victim)
			must(t, os.MkdirAll(filepath.Dir(victim), 0o700))
			must(t, os.WriteFile(victim, []byte("kept"), 0o600))
			defer func() {
				if got, err := os.ReadFile(victim); err != nil || string(got) != "kept" {
					t.Errorf("%s: %s holds %q, %v", name, victim, got, err)
				}
			}()
		}
		must(t, os.MkdirAll(s.dir, 0o700))
		must(t, os.WriteFile(filepath.Join(s.dir, name), []byte("0\n"), 0o600))
		must(t, s.Restore())
		if left, err := os.ReadDir(s.dir); err != nil || len(left) != 1 || left[0].Name() != name {
			t.Errorf("%s: left are %v, %v", name, left, err)
		}
	}
}

// Numbers that no such sysctl has are put back nowhere.
func TestARecordBeyondTheRange(t *testing.T) {
	const key = "net.ipv4.tcp_early_demux"
	for _, value := range []string{"-1", "256", "99999"} {
		s := fakeSysctls(t, map[string]string{key: "0\n"})
		must(t, os.MkdirAll(s.dir, 0o700))
		must(t, os.WriteFile(filepath.Join(s.dir, fileName(key)), []byte(value), 0o600))
		if err := s.Restore(); !errors.Is(err, atomicfile.ErrOdd) || s.value(t, key) != usual {
			t.Errorf("%s: %v, and the sysctl is %q", value, err, s.value(t, key))
		}
	}
}

// A link in the place of the records' folder leads to somebody else's files: none is
// read, written, moved or removed.
func TestALinkInThePlaceOfTheFolder(t *testing.T) {
	const key = "net.ipv4.tcp_early_demux"
	s := fakeSysctls(t, map[string]string{key: "1\n"})
	others := t.TempDir()
	files := []string{".hidden", "99-site.conf", fileName(key), "old.bad"}
	for _, name := range files {
		must(t, os.WriteFile(filepath.Join(others, name), []byte("7\n"), 0o600))
	}
	must(t, os.Symlink(others, s.dir))
	if changed, err := s.Zero("net.ipv4.tcp_early_demux"); !changed || !errors.Is(err, atomicfile.ErrOdd) || !strings.Contains(err.Error(), s.dir) {
		t.Errorf("changed %v, %v", changed, err)
	}
	must(t, New(s.dir, s.root, mine).Patient(slow).Restore()) // of another process
	if got := s.value(t, key); got != "0" {
		t.Errorf("put back %q from somebody else's files", got)
	}
	must(t, s.Restore()) // of the one that knows what it was
	if got := s.value(t, key); got != "1\n" {
		t.Errorf("put back %q", got)
	}
	list, err := os.ReadDir(others)
	must(t, err)
	var left []string
	for _, e := range list {
		left = append(left, e.Name())
	}
	if !slices.Equal(left, files) {
		t.Errorf("behind the link are %q, want %q", left, files)
	}
}

// What is in a folder that cannot be read may be a record: that is said, and what was
// never written down is put back.
func TestAFolderThatCannotBeRead(t *testing.T) {
	const key = "net.ipv4.tcp_early_demux"
	s := fakeSysctls(t, map[string]string{key: "1\n"})
	_, err := s.Zero(key)
	must(t, err)
	must(t, os.RemoveAll(filepath.Dir(s.dir)))
	must(t, os.WriteFile(filepath.Dir(s.dir), nil, 0o600))
	next := New(s.dir, s.root, mine).Patient(slow)
	if err := next.Undo(key); !errors.Is(err, syscall.ENOTDIR) || next.value(t, key) != "0" {
		t.Errorf("%v, and the value is %q", err, next.value(t, key))
	}
	next.owed.add(key, []byte("1\n"))
	if err := next.Undo(key); err != nil || next.value(t, key) != "1\n" {
		t.Errorf("of what is known: %v, and the value is %q", err, next.value(t, key))
	}
}
