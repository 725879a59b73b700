package cleanup

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/node/outage"
	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds"
)

// fill puts files at paths below a directory. A name that ends in .sock is a socket that
// nobody listens on.
func fill(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		if filepath.Ext(name) != ".sock" {
			must(t, os.WriteFile(path, []byte(content), 0o600))
			continue
		}
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		must(t, err)
		l.SetUnlinkOnClose(false)
		must(t, l.Close())
	}
}

// below are the paths of all that is in a directory.
func below(t *testing.T, dir string) (list []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if name, _ := filepath.Rel(dir, path); name != "." {
			list = append(list, name)
		}
		return err
	}))
	return list
}

// What gridmesh has on disk goes, and nothing else: also what is made beside
// sockets and by writers that died.
func TestRemoveFiles(t *testing.T) {
	c := configured(t)
	dir := filepath.Dir(c.Host.StateDir)
	bootstrap, err := xds.Bootstrap{Node: "n", Socket: c.XDSSocket, AdminSocket: c.AdminSocket, HealthPort: 15009}.YAML()
	must(t, err)
	fill(t, dir, map[string]string{
		"state/outage": `{"since":1}`, "state/contact": statedir.BootID() + "\n", "state/state.bad": "of whatever kind", "state/dns.v1": "\x00\x00", "state/lock": "",
		"state/manifests": source.MemoryMagic, "state/manifests.bad": "of whatever kind", "state/state": snapshotMagic, "state/.state.tmp-1": "half", "state/hosts": "10.0.0.1 a", "state/.state.mine": "",
		"run/xds.sock": "", "run/.xds.sock.lock": "", "run/.xds.sock.tmp/xds.sock": "", "run/agent.sock": "", "run/feed.sock": "", "run/envoy-admin.sock": "",
		"run/envoy.yaml": string(bootstrap), "run/other.sock": "",
	})
	for range 2 { // the second time there is nothing left to do
		if left, err := c.removeFiles(); err != nil || len(left) > 0 {
			t.Error(left, err)
		}
	}
	if left, want := below(t, dir), []string{"run", "run/other.sock", "state", "state/.state.mine", "state/hosts"}; !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
}

// A bootstrap is known by the socket beside it, also where the directory is mounted elsewhere;
// one of another socket is somebody else's.
func TestTheBootstrapOfAMountedDirectory(t *testing.T) {
	c := Config{XDSSocket: "/run/gridmesh/xds.sock"}
	for socket, want := range map[string]bool{"/run/gridmesh/xds.sock": true, "/run/lab/node/a-1/xds.sock": true, "/run/gridmesh/other.sock": false} {
		text, err := xds.Bootstrap{Node: "a-1", Socket: socket, AdminSocket: "/run/gridmesh/envoy-admin.sock"}.YAML()
		must(t, err)
		if got := c.isBootstrap(text); got != want {
			t.Errorf("that of %s: %v, want %v", socket, got, want)
		}
	}
}

// What somebody else has under these names stays, as does what links lead to, and it is
// told what it is.
func TestWhatIsNotOursStays(t *testing.T) {
	c := configured(t)
	dir := filepath.Dir(c.Host.StateDir)
	theirs := map[string]string{
		"state/state": "of another program", "state/outage": "planned for Monday", "state/contact": "ops@example.org", "state/lock": "pid 7", "state/dns.v1": "a note",
		"run/envoy.yaml": "node: {id: theirs}", "run/agent.sock/notes": "kept", "state/state.bad/notes": "kept", "other/file": "kept",
	}
	fill(t, dir, theirs)
	must(t, os.WriteFile(c.XDSSocket, []byte("kept"), 0o600)) // no socket
	must(t, os.Symlink(filepath.Join(dir, "other/file"), c.FeedSocket))
	l, err := net.Listen("unix", c.AdminSocket)
	must(t, err)
	defer l.Close()
	before := below(t, dir)
	left, err := c.removeFiles()
	if after := below(t, dir); err != nil || !slices.Equal(after, before) {
		t.Errorf("left are %q, were %q: %v", after, before, err)
	}
	want := map[string]string{
		"run/envoy.yaml": "not what gridmesh writes", "state/state": "not what gridmesh writes", "state/outage": "not what gridmesh writes",
		"state/contact": "not what gridmesh writes", "state/lock": "not what gridmesh writes", "state/dns.v1": "not what gridmesh writes",
		"run/agent.sock": "no socket", "run/xds.sock": "no socket", "run/feed.sock": "no socket", "run/envoy-admin.sock": "somebody listens", "state/state.bad": "with something in it",
	}
	if len(left) != len(want) {
		t.Errorf("%d are told: %q", len(left), left)
	}
	for _, l := range left {
		if name, _ := filepath.Rel(dir, l.Path); want[name] == "" || !strings.Contains(l.Why, want[name]) {
			t.Errorf("%s: %q, want %q", name, l.Why, want[name])
		}
	}
}

// A sysctl that waits for Envoy's end has its record, and says so.
func TestEarlyDemuxThatStaysIsTold(t *testing.T) {
	c := configured(t)
	fill(t, c.kept(capture.SysctlDir), map[string]string{capture.EarlyDemux: "1"})
	left, err := c.leftOfSysctls()
	must(t, err)
	if len(left) != 1 || !strings.Contains(left[0].Why, "end Envoy and run this again") {
		t.Errorf("told: %+v", left)
	}
}

// What is among the records of sysctls and is none stays, and is told; what a link in
// their place leads to is not looked at.
func TestWhatIsNoRecordIsTold(t *testing.T) {
	c := configured(t)
	c.Files = true
	dir := c.kept(capture.SysctlDir)
	told := func(when string, want ...string) {
		t.Helper()
		left, err := c.leftOfSysctls()
		must(t, err)
		var paths []string
		for _, l := range left {
			paths = append(paths, l.Path)
		}
		if !slices.Equal(paths, want) {
			t.Errorf("%s: %q, want %q", when, paths, want)
		}
	}
	told("no records")
	fill(t, dir, map[string]string{"net.ipv4.ip_forward": "0", "notes.bad/a": ""})
	told("two of somebody's", filepath.Join(dir, "net.ipv4.ip_forward"), filepath.Join(dir, "notes.bad"))
	others := filepath.Join(filepath.Dir(c.Host.StateDir), "others")
	must(t, os.Rename(dir, others))
	must(t, os.Symlink(others, dir))
	told("a link", dir)
	if c.recorded() {
		t.Error("a link is a directory of records")
	}
	must(t, os.Remove(dir))
	must(t, os.Mkdir(dir, 0o700))
	told("an empty one")
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the empty one stays: %v", err)
	}
}

func writeManifest(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "n.yaml"), []byte("{apiVersion: v1, kind: Node, metadata: {name: n}}"), 0o600))
	return dir
}

// What an agent writes into its directory, and sets aside there, is Kept, and nothing
// else but gridmesh-dns's and what sysctls were: a name that is missing would stay. And
// it is known again.
func TestWhatIsWrittenIsKept(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	at := time.Unix(1, 0)
	write := func() {
		note := outage.Note{Phase: outage.Cut, At: at, Contact: at, Record: outage.Record{Since: at}.Encode()}
		_, err := statedir.Notebook{Dir: dir, Boot: statedir.BootID()}.Put(outage.Note{}, note)
		must(t, err)
		must(t, source.NewKeeper(in(source.StateFile), 0).Write(&source.State{Snapshot: topology.NewBuilder().Build()}, at))
		manifests := source.NewDir(writeManifest(t))
		manifests.Remember(in(source.ManifestsFile), func() bool { return true }, func(error) {})
		ctx, cancel := context.WithCancel(t.Context())
		wake := manifests.Wake()
		go func() { <-wake; cancel() }()
		must(t, manifests.Run(ctx))
	}
	write()
	for _, name := range []string{source.StateFile, source.ManifestsFile, statedir.OutageFile, statedir.ContactFile} {
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
	c := configured(t)
	c.Host.StateDir = dir
	if left, err := c.removeFiles(); err != nil || len(left) > 0 || len(below(t, dir)) > 0 {
		t.Errorf("left are %q, told %q: %v", below(t, dir), left, err)
	}
}

// A directory may be called as patterns are: what is in others is not ours.
func TestADirectoryIsNoPattern(t *testing.T) {
	over := t.TempDir()
	c := configured(t)
	c.Host.StateDir = filepath.Join(over, "[ab]")
	ours, others := c.kept(".state.tmp-left"), filepath.Join(over, "a", ".state.tmp-mine")
	for _, path := range []string{ours, others} {
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, nil, 0o600))
	}
	_, err := c.removeFiles()
	must(t, err)
	if _, err := os.Lstat(ours); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ours: %v", err)
	}
	if _, err := os.Lstat(others); err != nil {
		t.Errorf("somebody else's: %v", err)
	}
}
