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
	// Beside a file kube-proxy passes its flags over.
	p, err := Node{Proc: proc}.proxy([]kubeproxy.Process{{PID: 7, Args: []string{"kube-proxy", "--config=/etc/config", "--proxy-mode=ipvs", "--masquerade-all"}}})
	if err != nil || p.Mode != "nftables" || p.Nftables.MasqueradeAll {
		t.Errorf("flags beside a file: %+v, %v", p, err)
	}
	if _, err := (Node{Proc: proc}).proxy(nil); !errors.Is(err, errNoProcess) {
		t.Errorf("nobody runs: %v", err)
	}
}

// Without a file each flag counts that a field of the file says.
func TestFlagsOfKubeProxy(t *testing.T) {
	p, err := Node{}.proxy([]kubeproxy.Process{{PID: 7, Args: strings.Fields("kube-proxy --proxy-mode=ipvs --nodeport-addresses=192.0.2.0/24, -conntrack-min 7 --conntrack-max-per-core=0" +
		" --conntrack-tcp-timeout-established=1h --conntrack-tcp-timeout-close-wait=1m --conntrack-udp-timeout=2m --conntrack-udp-timeout-stream 3m --conntrack-tcp-be-liberal" +
		" --ipvs-scheduler=wrr --masquerade-all=1 --detect-local-mode=BridgeInterface --pod-bridge-interface=cni0 --healthz-bind-address=127.0.0.1:1")}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range differences(p) {
		got = append(got, d.What)
	}
	want := "nodePortAddresses: 192.0.2.0/24; masqueradeAll: true; detectLocalMode: BridgeInterface cni0; ipvs.scheduler: wrr; healthzBindAddress: 127.0.0.1:1; " +
		"conntrack.maxPerCore: 0; conntrack.min: 7; conntrack.tcpEstablishedTimeout: 1h0m0s; conntrack.tcpCloseWaitTimeout: 1m0s; conntrack.udpTimeout: 2m0s; conntrack.udpStreamTimeout: 3m0s; conntrack.tcpBeLiberal: true"
	if list := strings.Join(got, "; "); list != want {
		t.Errorf("got %s, want %s", list, want)
	}
	for value, want := range map[string]bool{"": true, "=true": true, "=false": false} {
		p, err := Node{}.proxy([]kubeproxy.Process{{PID: 7, Args: []string{"kube-proxy", "--iptables-localhost-nodeports" + value}}})
		if err != nil || p.Iptables.LocalhostNodePorts == nil || *p.Iptables.LocalhostNodePorts != want {
			t.Errorf("%q: %+v, %v", value, p, err)
		}
	}
}
