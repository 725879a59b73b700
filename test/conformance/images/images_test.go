package images

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster/realnode"
)

// machine is one with all that images are made of.
func machine(t *testing.T) (bin, debian string) {
	t.Helper()
	dir := t.TempDir()
	write := func(path string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!"+filepath.Base(path)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "path")
	for _, name := range programs {
		write(filepath.Join(path, name))
	}
	t.Setenv("PATH", path)
	bin, debian = filepath.Join(dir, "bin"), filepath.Join(dir, "debian")
	for _, name := range append(built(bin), filepath.Join(debian, "busybox"), filepath.Join(debian, "nc.openbsd")) {
		write(name)
	}
	return bin, debian
}

// find returns the image of a name.
func find(t *testing.T, list []realnode.Image, name string) realnode.Image {
	t.Helper()
	i := slices.IndexFunc(list, func(m realnode.Image) bool { return slices.Contains(m.Names, name) })
	if i < 0 {
		t.Fatalf("no image %s", name)
	}
	return list[i]
}

// What the specs run in pods is the real program, and no applet of the same
// name stands before it.
func TestImages(t *testing.T) {
	bin, debian := machine(t)
	list, err := List(bin, debian)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{agnhost, busybox, glibc, iptables, nginx} {
		m := find(t, list, name)
		for inside, program := range programs {
			if filepath.Base(m.Files[inside]) != program {
				t.Errorf("%s: %s is %s", name, inside, m.Files[inside])
			}
			if applet := m.Links["/bin/"+filepath.Base(inside)]; applet != "" {
				t.Errorf("%s: %s is an applet, too", name, inside)
			}
		}
		if filepath.Base(m.Files["/bin/nc"]) != "nc.openbsd" || m.Links["/bin/nc"] != "" || m.Links["/bin/seq"] != "busybox" {
			t.Errorf("%s: nc is %s or %s, seq is %s", name, m.Files["/bin/nc"], m.Links["/bin/nc"], m.Links["/bin/seq"])
		}
		if len(m.Cmd) == 0 {
			t.Errorf("%s: a pod without args would run nothing", name)
		}
	}
	if m := find(t, list, agnhost); m.Entrypoint[0] != "/agnhost" || m.Files["/agnhost"] != filepath.Join(bin, "agnhost") {
		t.Errorf("agnhost: %+v", m)
	}
	m := find(t, list, agnhost)
	if _, err := tls.X509KeyPair([]byte(m.Text["/localhost.crt"]), []byte(m.Text["/localhost.key"])); err != nil {
		t.Errorf("agnhost cannot serve TLS: %v", err)
	}
	if m := find(t, list, boom); m.Files[m.Entrypoint[0]] != filepath.Join(bin, "regression-issue-74839") {
		t.Errorf("regression-issue-74839: %+v", m)
	}
	if m := find(t, list, pause); m.Files["/pause"] == "" {
		t.Errorf("pause: %+v", m)
	}
}

// All that is missing is said at once, with what to do.
func TestMissing(t *testing.T) {
	bin, debian := machine(t)
	for _, path := range []string{filepath.Join(os.Getenv("PATH"), "dig"), filepath.Join(os.Getenv("PATH"), "curl"), filepath.Join(debian, "busybox")} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	_, err := List(bin, debian)
	for _, says := range []string{"curl, dig not found (apt-get install", "busybox: no such file or directory (make conformance-programs)"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error: %v; want %s", err, says)
		}
	}
}
