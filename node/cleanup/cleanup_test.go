package cleanup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/node"
	"github.com/gridmesh/gridmesh/node/statedir"
)

const demux = "/proc/sys/net/ipv4/tcp_early_demux"

// served is a node that an agent has served, in a network of its own, and that was
// stopped: its rules are in force, and a sysctl is not as it was.
func served(t *testing.T) Config {
	t.Helper()
	testkit.NewNetwork(t)
	c := configured(t)
	must(t, os.WriteFile(demux, []byte("1"), 0o644))
	agent, err := capture.New(c.Capture, c.Host)
	must(t, err)
	must(t, agent.Install(c.Capture.ServiceCIDRs))
	must(t, agent.Tune())
	if !installed(t, c) || sysctl(t) != "0" {
		t.Fatalf("rules are there: %v, and tcp_early_demux is %s", installed(t, c), sysctl(t))
	}
	return c
}

func installed(t *testing.T, c Config) bool {
	t.Helper()
	there, err := capture.Installed(c.Capture)
	must(t, err)
	return there
}

func sysctl(t *testing.T) string {
	t.Helper()
	value, err := os.ReadFile(demux)
	must(t, err)
	return strings.TrimSpace(string(value))
}

// All goes, and what was kept of sysctls is put back; the second time there is nothing.
func TestRun(t *testing.T) {
	t.Parallel()
	c := served(t)
	c.Files = true
	r, err := Run(t.Context(), c)
	if err != nil || !r.Found || len(r.Doubtful) > 0 || r.StateDir != c.Host.StateDir {
		t.Errorf("%+v, %v", r, err)
	}
	if left, err := os.ReadDir(c.Host.StateDir); len(left) > 0 || err != nil {
		t.Errorf("left are %v, %v", left, err)
	}
	if installed(t, c) || sysctl(t) != "1" {
		t.Errorf("rules are there: %v, and tcp_early_demux is %s", installed(t, c), sysctl(t))
	}
	if r, err := Run(t.Context(), c); err != nil || r.Found {
		t.Errorf("again: %+v, %v", r, err)
	}
}

// What was kept of sysctls is lost: those that are 0 are told.
func TestWhatIsForgottenIsTold(t *testing.T) {
	t.Parallel()
	c := served(t)
	must(t, os.RemoveAll(c.kept(capture.SysctlDir)))
	r, err := Run(t.Context(), c)
	if err != nil || !r.Found || !slices.Contains(r.Doubtful, "net.ipv4.tcp_early_demux") || sysctl(t) != "0" {
		t.Errorf("%+v, %v; tcp_early_demux is %s", r, err, sysctl(t))
	}
}

// A directory that is not there is not made. Where there are rules it is not the
// agent's, and they stay.
func TestADirThatIsNotThere(t *testing.T) {
	t.Parallel()
	c := served(t)
	other := c
	other.Host.StateDir = filepath.Join(c.Host.StateDir, "other")
	if _, err := Run(t.Context(), other); err == nil || !strings.Contains(err.Error(), "--state-dir "+other.Host.StateDir+" is not there, but rules are") || !installed(t, c) {
		t.Errorf("with rules: %v; they are there: %v", err, installed(t, c))
	}
	unlock, err := capture.Lock()
	must(t, err)
	if _, err := Run(t.Context(), other); !errors.Is(err, node.ErrUnfit) {
		t.Errorf("of another agent, that runs: %v", err)
	}
	unlock()
	_, err = Run(t.Context(), c)
	must(t, err)
	if r, err := Run(t.Context(), other); err != nil || r.Found {
		t.Errorf("without rules: %+v, %v", r, err)
	}
	if _, err := os.Lstat(other.Host.StateDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is made: %v", err)
	}
}

// Where there is nothing of gridmesh nothing is made, and files of others stay.
func TestADirOfOthers(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	c := configured(t)
	fill(t, c.Host.StateDir, map[string]string{"hosts": "kept", ".state.mine": "kept"})
	for _, c.Files = range []bool{false, true} {
		if r, err := Run(t.Context(), c); err != nil || r.Found || len(r.Left) > 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if left := below(t, c.Host.StateDir); !slices.Equal(left, []string{".state.mine", "hosts"}) {
			t.Errorf("left are %q", left)
		}
	}
}

// A directory in the place of the lock is cured by its going, and by no other --state-dir.
func TestADirInThePlaceOfTheLock(t *testing.T) {
	t.Parallel()
	c := served(t)
	lock := filepath.Join(c.Host.StateDir, statedir.LockFile)
	must(t, os.Mkdir(lock, 0o700))
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), lock+" is a directory") || strings.Contains(err.Error(), "give the agent's") || !installed(t, c) {
		t.Errorf("%v; rules are there: %v", err, installed(t, c))
	}
	must(t, os.Remove(lock))
	if _, err := Run(t.Context(), c); err != nil || installed(t, c) {
		t.Errorf("%v; rules are there: %v", err, installed(t, c))
	}
}

// Beside an agent nothing goes.
func TestBesideAnAgent(t *testing.T) {
	t.Parallel()
	c := served(t)
	unlock, err := statedir.Lock(c.Host.StateDir)
	must(t, err)
	defer unlock()
	if _, err := Run(t.Context(), c); !errors.Is(err, node.ErrUnfit) || strings.Contains(err.Error(), "give the agent's") || !installed(t, c) {
		t.Errorf("%v; rules are there: %v", err, installed(t, c))
	}
}

// An agent that starts once nothing was found loses nothing: neither one that has the
// directory of the state, nor one that has the network by now.
func TestAnAgentThatStartsMeanwhile(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	c := configured(t)
	c.Files = true
	fill(t, c.Host.StateDir, map[string]string{"state": snapshotMagic})
	stays := func(when string, err error) {
		t.Helper()
		if _, gone := os.Lstat(c.kept("state")); !errors.Is(err, node.ErrUnfit) || gone != nil {
			t.Errorf("%s: %v; the state is there: %v", when, err, gone == nil)
		}
	}
	unlock, err := statedir.Lock(c.Host.StateDir)
	must(t, err)
	_, err = c.takeAway(t.Context(), false)
	stays("it has the directory", err)
	unlock()
	unlock, err = capture.Lock()
	must(t, err)
	_, err = c.tidyAlone()
	stays("it has the network", err)
	unlock()
	if _, err := c.takeAway(t.Context(), false); err != nil || len(below(t, c.Host.StateDir)) > 0 {
		t.Errorf("without one: %v; left are %q", err, below(t, c.Host.StateDir))
	}
}

// A disk that hangs keeps no rules there, and what it keeps waiting is told; once it
// answers the rest goes.
func TestADiskThatHangs(t *testing.T) {
	t.Parallel()
	c := served(t)
	hung, back := impatient(t, c)
	hung.Files = true
	if _, err := Run(t.Context(), hung); !errors.Is(err, atomicfile.ErrLate) || !strings.Contains(err.Error(), "rules and routes are gone") || installed(t, c) {
		t.Errorf("%v; rules are there: %v", err, installed(t, c))
	}
	if _, err := Run(t.Context(), hung); !errors.Is(err, atomicfile.ErrLate) || !strings.Contains(err.Error(), "no rules of gridmesh are in this network, but --state-dir "+c.Host.StateDir) {
		t.Errorf("again: %v", err)
	}
	if !hung.recorded() {
		t.Error("a disk that does not say has no records")
	}
	back()
	r, err := Run(t.Context(), c)
	for errors.Is(err, node.ErrUnfit) { // what waited for the lock may have it for a moment
		r, err = Run(t.Context(), c)
	}
	if err != nil || !r.Found || len(r.Doubtful) > 0 || sysctl(t) != "1" {
		t.Errorf("once it answers: %+v, %v; tcp_early_demux is %s", r, err, sysctl(t))
	}
}

// Each name that is Kept says that somebody was here, and no other does.
func TestOnDisk(t *testing.T) {
	c := configured(t)
	there := func() bool {
		t.Helper()
		is, err := c.onDisk()
		must(t, err)
		return is
	}
	must(t, os.WriteFile(c.kept("hosts"), nil, 0o600))
	if there() {
		t.Error("a file of somebody else's is taken for gridmesh's")
	}
	for _, name := range Kept() {
		must(t, os.WriteFile(c.kept(name), nil, 0o600))
		if !there() {
			t.Errorf("%s is not seen", name)
		}
		must(t, os.Remove(c.kept(name)))
	}
	must(t, os.RemoveAll(c.Host.StateDir))
	if there() || c.recorded() {
		t.Error("something is seen in a directory that is not there")
	}
}

// Those are told that gridmesh may have set to 0, and are.
func TestZeroes(t *testing.T) {
	c := configured(t)
	c.Host.ProcSys = t.TempDir()
	if got := c.zeroes(); len(got) > 0 {
		t.Errorf("of none: %q", got)
	}
	keys := capture.Sysctls()
	for i, key := range keys {
		path := filepath.Join(c.Host.ProcSys, strings.ReplaceAll(key, ".", "/"))
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte{byte('0' + i%2), '\n'}, 0o600))
	}
	want := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return slices.Index(keys, key)%2 == 1 })
	if got := c.zeroes(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
