package kubeproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Namespaced(m.Run) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a program of the machine, with a text to read.
func run(t *testing.T, text, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// needs skips, loudly, where the machine lacks a program.
func needs(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("SKIPPED: %v", err)
		}
	}
}

const nftRules = `
table ip kube-proxy {
	map service-ips {
		type ipv4_addr . inet_proto . inet_service : verdict
	}
	map no-endpoint-services {
		type ipv4_addr . inet_proto . inet_service : verdict
	}
	chain services {
	}
	chain nat-prerouting {
		type nat hook prerouting priority -100
		jump services
	}
}
table ip6 kube-proxy {
}
table ip other {
}
`

// The tables of the mode nftables are found, and in force once they have a frontend.
func TestNftables(t *testing.T) {
	needs(t, "nft")
	testkit.NewNetwork(t)
	wantRules(t, "nothing", "", "")
	run(t, nftRules, "nft", "-f", "-")
	run(t, "delete table ip6 kube-proxy", "nft", "-f", "-")
	wantRules(t, "empty", "nftables", "")
	run(t, "add element ip kube-proxy service-ips { 10.96.0.1 . tcp . 443 : goto services }", "nft", "-f", "-")
	wantRules(t, "with a frontend", "nftables", "ip")
	run(t, "flush map ip kube-proxy service-ips", "nft", "-f", "-")
	wantRules(t, "without one", "nftables", "")
	run(t, "add element ip kube-proxy no-endpoint-services { 10.96.0.1 . tcp . 443 : goto services }", "nft", "-f", "-")
	wantRules(t, "with one that has no endpoint", "nftables", "ip")
	must(t, Remove())
	wantRules(t, "removed", "", "")
	if left := run(t, "", "nft", "list", "tables"); strings.TrimSpace(left) != "table ip other" {
		t.Errorf("left are %s", left)
	}
	must(t, Remove()) // nothing is there
}

// saved is what iptables-save has of kube-proxy, of the kubelet and of others.
const saved = `*nat
:PREROUTING ACCEPT
:OUTPUT ACCEPT
:POSTROUTING ACCEPT
:DOCKER - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-PROXY-CANARY - [0:0]
:KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]
-A PREROUTING -j KUBE-SERVICES
-A PREROUTING -j DOCKER
-A OUTPUT -j KUBE-SERVICES
-A POSTROUTING -j KUBE-POSTROUTING
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MASQUERADE
-A KUBE-SEP-AAAAAAAAAAAAAAAA -p tcp -j DNAT --to-destination 10.1.0.1:80
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp --dport 80 -j KUBE-SVC-AAAAAAAAAAAAAAAA
-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-MARK-MASQ
-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-SEP-AAAAAAAAAAAAAAAA
COMMIT
*filter
:FORWARD ACCEPT
:KUBE-FIREWALL - [0:0]
:KUBE-FORWARD - [0:0]
-A FORWARD -j KUBE-FORWARD
-A FORWARD -j KUBE-FIREWALL
-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
COMMIT
`

// Of the tables of iptables the chains of kube-proxy go, and what leads there; those of
// others stay as they are, and iptables still reads all of it.
func TestIptables(t *testing.T) {
	needs(t, "iptables-nft-restore", "iptables-nft-save")
	testkit.NewNetwork(t)
	run(t, saved, "iptables-nft-restore")
	wantRules(t, "rules", "iptables", "ip")
	must(t, Remove())
	wantRules(t, "removed", "", "")
	wantOthers(t)
}

// wantOthers wants of what was saved all that is not kube-proxy's, and nothing else.
func wantOthers(t *testing.T) {
	t.Helper()
	left := run(t, "", "iptables-nft-save")
	for _, line := range strings.Split(left, "\n") {
		if strings.Contains(line, "KUBE-") && !strings.Contains(line, "KUBE-KUBELET-CANARY") && !strings.Contains(line, "KUBE-FIREWALL") {
			t.Errorf("left is %s", line)
		}
	}
	for _, want := range []string{"-A PREROUTING -j DOCKER", "-A FORWARD -j KUBE-FIREWALL", ":KUBE-KUBELET-CANARY"} {
		if !strings.Contains(left, want) {
			t.Errorf("%s is gone:\n%s", want, left)
		}
	}
}

// Chains alone are in force for nobody yet: kube-proxy makes them before it has heard of Services.
func TestIptablesThatServeNobody(t *testing.T) {
	needs(t, "iptables-nft")
	testkit.NewNetwork(t)
	run(t, "", "iptables-nft", "-t", "nat", "-N", "KUBE-SERVICES")
	run(t, "", "iptables-nft", "-t", "nat", "-A", "PREROUTING", "-j", "KUBE-SERVICES")
	wantRules(t, "before the first sync", "iptables", "")
	run(t, "", "iptables-nft", "-t", "filter", "-N", "KUBE-SERVICES")
	wantRules(t, "before the first sync, with all chains", "iptables", "")
	run(t, "", "iptables-nft", "-t", "filter", "-A", "KUBE-SERVICES", "-d", "10.96.0.1/32", "-j", "REJECT")
	wantRules(t, "with a Service that has no endpoint", "iptables", "ip")
}

// A kube-proxy that starts writes all of it anew, and that is seen, in both modes; nothing
// else is taken for it.
func TestWhatIsWrittenAnew(t *testing.T) {
	needs(t, "nft", "iptables-nft", "iptables-nft-restore")
	testkit.NewNetwork(t)
	written := func() string {
		r, err := Look()
		must(t, err)
		return r.Written
	}
	was := written()
	want := func(when string, anew bool) {
		t.Helper()
		is := written()
		if (is != was) != anew {
			t.Errorf("%s: %q was %q", when, is, was)
		}
		was = is
	}
	want("nothing", false)
	run(t, nftRules, "nft", "-f", "-")
	want("the first sync", true)
	run(t, "add element ip kube-proxy service-ips { 10.96.0.1 . tcp . 443 : goto services }", "nft", "-f", "-")
	run(t, "add table ip more", "nft", "-f", "-")
	want("others, and what a change of a Service is", false)
	run(t, "flush chain ip kube-proxy nat-prerouting\nadd rule ip kube-proxy nat-prerouting jump services", "nft", "-f", "-")
	want("a start", true)
	run(t, saved, "iptables-nft-restore", "--noflush")
	want("the first sync of iptables", true)
	run(t, "", "iptables-nft", "-t", "nat", "-I", "PREROUTING", "-j", "ACCEPT")
	want("others of iptables", false)
	run(t, saved, "iptables-nft-restore", "--noflush")
	want("a start of iptables", true)
}

// The old iptables are found, and nobody here can remove what is in them.
func TestOldIptables(t *testing.T) {
	needs(t, "iptables-legacy")
	testkit.NewNetwork(t)
	if out, err := exec.CommandContext(t.Context(), "iptables-legacy", "-t", "nat", "-N", "KUBE-SERVICES").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: no rules of the old iptables can be made here: %v\n%s", err, out)
	}
	must(t, Remove())
	r, err := Look()
	must(t, err)
	if !r.Stays() || r.Mode() != "iptables" || r.Text() != "chains KUBE-* of iptables-legacy" {
		t.Errorf("found %+v", r)
	}
}

// Where the links are not told nobody says that there is no ipvs.
func TestIPVS(t *testing.T) {
	testkit.NewNetwork(t)
	for name, c := range map[string]struct {
		links []net.Interface
		err   error
		ipvs  bool
	}{
		"none":     {links: []net.Interface{{Name: "lo"}}},
		"ipvs":     {links: []net.Interface{{Name: "lo"}, {Name: Link}}, ipvs: true},
		"not told": {err: syscall.ENOBUFS},
	} {
		r, err := look(func() ([]net.Interface, error) { return c.links, c.err })
		if r.IPVS != c.ipvs || !errors.Is(err, c.err) {
			t.Errorf("%s: found %+v, %v, want %t, %v", name, r, err, c.ipvs, c.err)
		}
	}
}

func wantRules(t *testing.T, when, mode, serves string) {
	t.Helper()
	r, err := Look()
	must(t, err)
	list, err := Serving()
	must(t, err)
	if r.Mode() != mode || strings.Join(list, ",") != serves || r.None() != (mode == "") {
		t.Errorf("%s: found %+v in force for %v, want mode %q for %q", when, r, list, mode, serves)
	}
}

// Who listens on a port of kube-proxy's is one, where it is not this process.
func TestAliveByItsPort(t *testing.T) {
	testkit.NewNetwork(t)
	want := func(when, port string) {
		t.Helper()
		signs, err := Alive()
		must(t, err)
		signs.Process = "" // the machine may have one, in a network that nobody here may know
		if (signs.Port == "") != (port == "") || !strings.Contains(signs.Port, port) || signs.Text() != signs.Port {
			t.Errorf("%s: %+v, want port %q", when, signs, port)
		}
	}
	want("nobody listens", "")
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "0.0.0.0:10256")
	must(t, err)
	want("this process listens", "")
	file, err := l.(*net.TCPListener).File()
	must(t, err)
	child := exec.CommandContext(t.Context(), "sleep", "1000")
	child.ExtraFiles = []*os.File{file}
	must(t, child.Start())
	must(t, l.Close())
	must(t, file.Close())
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	want("another process listens", "10256")
}

// A process is known by its name, where it may write rules, in this network or in one that
// nobody may know; one that cleans up is none.
func TestProcesses(t *testing.T) {
	proc := t.TempDir()
	const root, all, few, admin = "0", "000001ffffffffff", "00000000a80425fb", "0000000000001000"
	const every, own = "         0          0 4294967295\n", "         0       1000          1\n" // users, as a user namespace has them
	add := func(pid, net, users, caps string, args ...string) {
		dir := filepath.Join(proc, pid)
		must(t, os.MkdirAll(filepath.Join(dir, "ns"), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, "cmdline"), []byte(strings.Join(args, "\x00")+"\x00"), 0o600))
		must(t, os.WriteFile(filepath.Join(dir, "status"), fmt.Appendf(nil, "Name:\tx\nCapPrm:\t%s\nCapEff:\t%s\n", all, caps), 0o600))
		must(t, os.WriteFile(filepath.Join(dir, "uid_map"), []byte(users), 0o600))
		if net == "" { // it may not be read, as a link that is none may not
			must(t, os.WriteFile(filepath.Join(dir, "ns/net"), nil, 0o600))
			return
		}
		must(t, os.Symlink(net, filepath.Join(dir, "ns/net")))
	}
	add("thread-self", "net:[1]", every, all, "test")
	add("2", "net:[1]", every, all, "vi", "kube-proxy.yaml")
	add("3", "net:[1]", every, all, "/usr/local/bin/kube-proxy", "--cleanup")
	add("4", "net:[2]", every, all, "/usr/local/bin/kube-proxy")
	add("5", "net:[1]", every, all, "/usr/bin/kube", "kube-proxy", "--config", "/x")
	add("6", "net:[1]", own, all, "kube-proxy", "of somebody in a user namespace of his own")
	add("7", "net:[1]", every, few, "kube-proxy", "in a container")
	add("8", "", every, all, "kube-proxy", "that is more than this process")
	add("9", "net:[1]", every, admin, "kube-proxy", "of a user who may write rules, and nothing else")
	add("10", "", own, all, "kube-proxy", "of somebody, and more than this process")
	list, err := Processes(proc)
	must(t, err)
	var found []int
	for _, p := range list {
		found = append(found, p.PID)
	}
	if slices.Sort(found); !slices.Equal(found, []int{5, 8, 9}) {
		t.Errorf("found %+v", list)
	}
	if list = slices.DeleteFunc(list, func(p Process) bool { return p.PID != 5 }); len(list) != 1 || list[0].Args[3] != "/x" {
		t.Errorf("its arguments are %+v", list)
	}
}

// Real processes by that name: one that is not root's and may write rules in this network is a
// sign; one that may not is none, nor is one that may in a user namespace of its own alone.
func TestProcessesOfOthers(t *testing.T) {
	testkit.NeedsStranger(t)
	testkit.NewNetwork(t)
	for name, tc := range map[string]struct {
		uid  uint32
		attr syscall.SysProcAttr
		sign bool
	}{
		"root":                        {0, syscall.SysProcAttr{}, true},
		"a user who may write rules":  {testkit.Stranger, syscall.SysProcAttr{AmbientCaps: []uintptr{unix.CAP_NET_ADMIN}}, true},
		"a user who may not":          {testkit.Stranger, syscall.SysProcAttr{}, false},
		"root of another world alone": {0, syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}}, false},
	} {
		cmd := exec.CommandContext(t.Context(), "sleep", "1000")
		cmd.Args[0] = "kube-proxy"
		cmd.SysProcAttr = &tc.attr
		if tc.uid != 0 {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: tc.uid, NoSetGroups: true}
		}
		must(t, cmd.Start())
		list, err := Processes("/proc")
		must(t, err)
		if is := slices.ContainsFunc(list, func(p Process) bool { return p.PID == cmd.Process.Pid }); is != tc.sign {
			t.Errorf("%s: a sign %v, want %v", name, is, tc.sign)
		}
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
	}
}

// Who is not root and has a port is told, and is no sign: anybody may be on the node's network.
func TestPortOfSomebody(t *testing.T) {
	testkit.NewNetwork(t)
	stop, began := make(chan struct{}), make(chan struct{})
	ended := testkit.AsStranger(t, func() error {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "0.0.0.0:10256")
		if close(began); err != nil {
			return err
		}
		<-stop
		return l.Close()
	})
	<-began
	port, other, err := heldPorts(nil)
	must(t, err)
	if want := (holder{10256, testkit.Stranger}); port != (holder{}) || other != want {
		t.Errorf("root has %+v, somebody %+v; want %+v", port, other, want)
	}
	close(stop)
	must(t, <-ended)
}
