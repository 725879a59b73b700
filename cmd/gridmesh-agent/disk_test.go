package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/node/report"
)

// disk mounts a disk of its own on a directory.
func (p place) disk(path, options string) {
	p.Helper()
	if err := errors.Join(os.MkdirAll(path, 0o700), unix.Mount("none", path, "tmpfs", 0, options)); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
}

// bridged gives the place a pod network of which sysctls have to be remembered.
func (p place) bridged() {
	p.Helper()
	la := netlink.NewLinkAttrs()
	la.Name = "cni0"
	bridge := &netlink.Bridge{LinkAttrs: la}
	addr, err := netlink.ParseAddr("10.244.1.1/24")
	redirects := "/proc/sys/net/ipv4/conf/cni0/send_redirects"
	if err := errors.Join(err, netlink.LinkAdd(bridge), netlink.AddrAdd(bridge, addr), netlink.LinkSetUp(bridge), os.WriteFile(redirects, []byte("1"), 0o644)); err != nil {
		p.Fatal(err)
	}
}

// A directory that takes no sockets, full or read-only as /run may be at a boot, keeps no node from
// its guard; once it takes some, whoever asks is answered, and they are kept there as those are that
// came at once.
func TestADirectoryThatTakesNoSockets(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options string
		flags   uintptr
	}{
		"read-only": {"mode=0700", unix.MS_RDONLY},
		"full":      {"mode=0700,nr_inodes=1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			dir := filepath.Join(p.dir, "run")
			p.disk(dir, tc.options)
			if err := unix.Mount("none", dir, "tmpfs", unix.MS_REMOUNT|tc.flags, ""); err != nil {
				t.Fatal(err)
			}
			cmd := p.agent("a", "--manifests", p.manifests(), "--xds-socket", dir+"/x", "--status-socket", dir+"/s", "--feed-socket", dir+"/f")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			soon := func(what string, is func() bool) {
				t.Helper()
				for begin := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
					if time.Since(begin) > time.Minute {
						t.Fatalf("not within a minute: %s", what)
					}
				}
			}
			soon("a guard", func() bool { return strings.Contains(strings.Join(p.left(), ", "), "table gridmesh,") })
			if err := unix.Mount("none", dir, "tmpfs", unix.MS_REMOUNT, "nr_inodes=100"); err != nil {
				t.Fatal(err)
			}
			status := func() bool {
				r, err := report.Ask(t.Context(), dir+"/s")
				return err == nil && r.Source == report.Live && !slices.ContainsFunc(r.Findings, func(f capture.Finding) bool { return f.Kind == "socket-dir" })
			}
			soon("a status", status)
			p.disk(dir, "mode=0700") // as what is mounted at a boot may come over them
			soon("a status, over what was mounted", status)
			for _, socket := range []string{"x", "f", "s"} {
				answers := func() bool {
					conn, err := net.Dial("unix", filepath.Join(dir, socket))
					if err == nil {
						_ = conn.Close()
					}
					return err == nil
				}
				soon(socket+" over what was mounted", answers)
				if err := os.Remove(filepath.Join(dir, socket)); err != nil {
					t.Fatal(err)
				}
				soon(socket+" where it was removed", answers)
			}
		})
	}
}

// A node whose disk is read-only, or full, is guarded and served: the lock of
// the network keeps others away, and the status says what is wrong for as long
// as it is.
func TestADiskThatTakesNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		files   []string // that are there
		options string
		flags   uintptr // of the mount, once the files are there
		say     string
	}{
		"read-only":         {[]string{"lock"}, "mode=0700", unix.MS_RDONLY, "read-only file system"},
		"full":              {[]string{"other"}, "mode=0700,nr_inodes=2", 0, "no space left on device"},
		"full, with a lock": {[]string{"lock"}, "mode=0700,nr_inodes=2", 0, "no space left on device"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.bridged()
			dir := filepath.Join(p.dir, "a.state")
			p.disk(dir, tc.options)
			for _, file := range tc.files {
				if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := unix.Mount("none", dir, "tmpfs", unix.MS_REMOUNT|tc.flags, ""); err != nil {
				t.Fatal(err)
			}
			stop := p.serves("a", "--manifests", p.manifests())
			guarded := strings.Join(p.left(), ", ")
			if !strings.Contains(guarded, "table gridmesh,") {
				t.Errorf("no guard is in force: %s", guarded)
			}
			p.finds("a", tc.say)
			for name, args := range map[string][]string{"a second agent": {"--manifests", p.manifests()}, "cleanup": {"cleanup"}} {
				if out := p.ends(p.agent("b", append(args, "--state-dir", dir)...), 3); !strings.Contains(out, "stop it first") {
					t.Errorf("%s: %s", name, out)
				}
			}
			stop()
			p.ends(p.agent("b", "cleanup", "--state-dir", dir), 0)
			if left := strings.Join(p.left(), ", "); strings.Contains(left, "table") || strings.Contains(left, "rule") {
				t.Errorf("left: %s", left)
			}
		})
	}
}

// A disk that hangs keeps no node from its guard and from serving, no agent from its
// end and no cleanup from taking rules and routes away; what it cannot put back it
// says, and does once the disk answers.
func TestADiskThatHangs(t *testing.T) {
	t.Parallel()
	const redirects = "/proc/sys/net/ipv4/conf/cni0/send_redirects"
	p := newPlace(t)
	p.bridged()
	dir := filepath.Join(p.dir, "a.state")
	node := filepath.Join(p.manifests(), "node.yaml") // without one what a run before served would have to be known first
	if err := os.WriteFile(node, []byte("{apiVersion: v1, kind: Node, metadata: {name: a}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.serves("a", "--manifests", p.manifests())()
	back := testkit.HangingDisk(p, dir)
	stop := p.serves("a", "--manifests", p.manifests())
	if guarded := strings.Join(p.left(), ", "); !strings.Contains(guarded, "table gridmesh,") {
		t.Errorf("no guard is in force: %s", guarded)
	}
	p.finds("a", "the disk does not answer")
	begin := time.Now()
	if stop(); time.Since(begin) > time.Minute {
		t.Errorf("its end took %s", time.Since(begin))
	}
	out := p.ends(p.agent("a", "cleanup", "--files"), 1)
	if !strings.Contains(out, "rules and routes are gone") || !strings.Contains(out, "the disk does not answer") || !strings.Contains(out, "send_redirects") {
		t.Errorf("cleanup: %s", out)
	}
	if left := strings.Join(p.left(), ", "); strings.Contains(left, "table") || strings.Contains(left, "rule") {
		t.Errorf("left: %s", left)
	}
	if out := p.ends(p.agent("a", "cleanup"), 1); !strings.Contains(out, "no rules of gridmesh are in this network, but --state-dir "+dir) {
		t.Errorf("cleanup again: %s", out)
	}
	back()
	p.ends(p.agent("a", "cleanup"), 0)
	if value, err := os.ReadFile(redirects); err != nil || strings.TrimSpace(string(value)) != "1" {
		t.Errorf("send_redirects is %s, %v", value, err)
	}
}

// A directory that cannot be is a mistake, for a start and for cleanup; what an
// agent left in force stays.
func TestAStateDirThatCannotBe(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.serves("a", "--manifests", p.manifests())()
	before := p.left()
	file := filepath.Join(p.dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{"a start": {"--manifests", p.manifests()}, "cleanup": {"cleanup"}} {
		out := p.ends(p.agent("a", append(args, "--state-dir", filepath.Join(file, "state"))...), 1)
		if !strings.Contains(out, "--state-dir "+file+"/state: ") || !strings.Contains(out, "not a directory") {
			t.Errorf("%s: %s", name, out)
		}
	}
	if after := p.left(); len(before) == 0 || strings.Join(after, ", ") != strings.Join(before, ", ") {
		t.Errorf("%v became %v", before, after)
	}
	mistyped := filepath.Join(p.dir, "a.stat")
	if out := p.ends(p.agent("a", "cleanup", "--files", "--state-dir", mistyped), 1); !strings.Contains(out, "--state-dir "+mistyped+" is not there") {
		t.Errorf("cleanup with a mistyped directory: %s", out)
	}
	if after := p.left(); strings.Join(after, ", ") != strings.Join(before, ", ") {
		t.Errorf("a mistyped directory: %v became %v", before, after)
	}
	if out := p.ends(p.agent("a", "cleanup"), 0); !strings.Contains(out, "are gone from this node") {
		t.Errorf("cleanup: %s", out)
	}
	if out := p.ends(p.agent("b", "cleanup"), 0); !strings.Contains(out, "nothing of gridmesh was here") || !strings.Contains(out, "b.state") {
		t.Errorf("cleanup where nothing was: %s", out)
	}
	for _, dir := range []string{mistyped, filepath.Join(p.dir, "b.state")} {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("cleanup has made %s: %v", dir, err)
		}
	}
}

// What was kept of sysctls is lost: cleanup says which of them may not be as they
// were, and says nothing of the kind where it has put them back.
func TestSysctlsThatAreForgotten(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"kept": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			const demux = "/proc/sys/net/ipv4/tcp_early_demux"
			if err := os.WriteFile(demux, []byte("1"), 0o644); err != nil {
				t.Fatal(err)
			}
			p.serves("a", "--manifests", p.manifests())()
			if lost {
				if err := os.RemoveAll(filepath.Join(p.dir, "a.state", sysctlDir)); err != nil {
					t.Fatal(err)
				}
			}
			out := p.ends(p.agent("a", "cleanup"), 0)
			value, err := os.ReadFile(demux)
			if err != nil {
				t.Fatal(err)
			}
			if is := strings.TrimSpace(string(value)) == "0"; is != lost || is != strings.Contains(out, "net.ipv4.tcp_early_demux") {
				t.Errorf("tcp_early_demux is %s, and cleanup said: %s", value, out)
			}
		})
	}
}

// finds waits until the status says that the state directory takes nothing.
func (p place) finds(name, say string) {
	p.Helper()
	p.awaits(name, func(r *report.Report) bool {
		return slices.ContainsFunc(r.Findings, func(f capture.Finding) bool {
			return f.Kind == "state-dir" && strings.Contains(f.Text, say) && strings.Contains(f.Text, "--state-dir "+filepath.Join(p.dir, name+".state"))
		})
	})
}
