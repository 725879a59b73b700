package cleanup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/node/outage"
	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// What gridmesh has on disk goes, and nothing else: also what is made beside
// sockets and by writers that died, and not the value of a sysctl that could
// not be put back.
func TestRemoveFiles(t *testing.T) {
	c := configured(t)
	dir := filepath.Dir(c.Host.StateDir)
	for _, name := range []string{
		"state/state", "state/outage", "state/contact", "state/state.bad", "state/dns.v1", "state/lock", "state/.state.tmp-1", "state/hosts",
		"run/xds.sock", "run/.xds.sock.lock", "run/agent.sock", "run/feed.sock", "run/envoy-admin.sock", "run/envoy.yaml", "run/other.sock",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	must(t, os.Mkdir(filepath.Join(dir, "state/sysctl"), 0o700))
	for range 2 { // the second time there is nothing left to do
		if err := c.removeFiles(); err != nil {
			t.Error(err)
		}
	}
	var left []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		left = append(left, name)
		return err
	})
	if want := []string{".", "run", "run/other.sock", "state", "state/hosts"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q: %v", left, want, err)
	}

	record := filepath.Join(dir, "state/sysctl/net.ipv4.tcp_early_demux")
	must(t, errors.Join(os.Mkdir(filepath.Dir(record), 0o700), os.WriteFile(record, []byte("1"), 0o600)))
	if err := c.removeFiles(); err == nil {
		t.Error("the value of a sysctl that is still to be put back is passed over in silence")
	}
	if _, err := os.Stat(record); err != nil {
		t.Error(err)
	}
}

// What an agent writes into its directory, and sets aside there, is Kept, and nothing
// else but gridmesh-dns's and what sysctls were: a name that is missing would stay.
func TestWhatIsWrittenIsKept(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	at := time.Unix(1, 0)
	write := func() {
		note := outage.Note{Phase: outage.Cut, At: at, Contact: at, Record: []byte("x")}
		_, err := statedir.Notebook{Dir: dir, Boot: "b"}.Put(outage.Note{}, note)
		must(t, err)
		must(t, source.NewKeeper(in(source.StateFile), 0).Write(&source.State{Snapshot: topology.NewBuilder().Build()}, at))
	}
	write()
	for _, name := range []string{source.StateFile, statedir.OutageFile, statedir.ContactFile} {
		_, err := atomicfile.SetAside(in(name))
		must(t, err)
	}
	write()
	unlock, err := statedir.Lock(dir)
	must(t, err)
	unlock()

	entries, err := os.ReadDir(dir)
	must(t, err)
	var written []string
	for _, e := range entries {
		written = append(written, e.Name())
	}
	want := slices.DeleteFunc(Kept(), func(name string) bool {
		return name == capture.SysctlDir || name == dnsSnapshot || name == atomicfile.Aside(dnsSnapshot)
	})
	if slices.Sort(want); !slices.Equal(written, want) {
		t.Errorf("written is %q, and Kept %q", written, want)
	}
}

// A directory may be called as patterns are: what is in others is not ours.
func TestADirectoryIsNoPattern(t *testing.T) {
	over := t.TempDir()
	c := configured(t)
	c.Host.StateDir = filepath.Join(over, "[ab]")
	ours, others := c.kept(".lock.left"), filepath.Join(over, "a", ".lock.mine")
	for _, path := range []string{ours, others} {
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, nil, 0o600))
	}
	must(t, c.removeFiles())
	if _, err := os.Lstat(ours); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ours: %v", err)
	}
	if _, err := os.Lstat(others); err != nil {
		t.Errorf("somebody else's: %v", err)
	}
}
