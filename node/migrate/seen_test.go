package migrate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/kubeproxy"
)

// What a process says is its configuration may be anything: only a file of its own that
// ends is read.
func TestConfigurationOfSomebody(t *testing.T) {
	proc := t.TempDir()
	root := filepath.Join(proc, "7/root")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(path, text string) string {
		must(os.MkdirAll(filepath.Dir(path), 0o700))
		must(os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	secret := write(filepath.Join(proc, "secret"), "kind: KubeProxyConfiguration\nmode: ipvs")
	write(root+"/etc/..data/config", "kind: KubeProxyConfiguration\nmode: nftables")
	must(os.Symlink("..data/config", root+"/etc/config"))
	must(os.Symlink(secret, root+"/etc/absolute"))
	must(os.Symlink("../../../secret", root+"/etc/relative"))
	must(unix.Mkfifo(root+"/etc/fifo", 0o600))
	write(root+"/etc/large", strings.Repeat("#", maxConfig+1))
	for path, want := range map[string]string{
		"/etc/config": "", "/etc/absolute": "escapes", "/etc/relative": "escapes", "/../../../secret": "escapes",
		"/etc/fifo": errNoFile.Error(), "/etc/large": errNoFile.Error(), "/etc": errNoFile.Error(), "/etc/none": "no such file",
	} {
		p, err := Node{Proc: proc}.proxy([]kubeproxy.Process{{PID: 7, Args: []string{"kube-proxy", "--config", path}}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
		if err == nil && p.Mode != "nftables" {
			t.Errorf("%s has mode %q", path, p.Mode)
		}
	}
	if _, err := (Node{Proc: proc}).proxy(nil); !errors.Is(err, errNoProcess) {
		t.Errorf("nobody runs: %v", err)
	}
}
