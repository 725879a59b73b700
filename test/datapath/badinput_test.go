package datapath

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

func TestSocketPathsThatExist(t *testing.T) {
	e := named(t, "a-1")
	e.Agent.Signal(syscall.SIGTERM) // else the lock of the network is met first
	dir := t.TempDir()
	file := dir + "/file"
	must(t, os.WriteFile(file, []byte("mine"), 0o600))
	common := []string{"--state-dir", dir + "/state", "--pod-cidr", e.PodCIDR.String() + "," + e.PodCIDR6.String(), "--service-cidr", "10.96.0.0/16,fd00:96::/112", "--healthz-bind-address", "", "--metrics-bind-address", ""}
	refusedStart(t, e, 1, append(common, "--xds-socket", file), "something that is no socket is there", "choose another path", file)
	if body, err := os.ReadFile(file); err != nil || string(body) != "mine" {
		t.Errorf("the file was touched: %q, %v", body, err)
	}
	alive, err := net.Listen("unix", dir+"/alive.sock")
	must(t, err)
	defer alive.Close()
	refusedStart(t, e, 3, append(common, "--xds-socket", dir+"/alive.sock"), "somebody listens on "+dir+"/alive.sock already")
	dead := dir + "/dead.sock"
	l, err := net.Listen("unix", dead)
	must(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	must(t, l.Close())
	// A socket that a dead process left is replaced: this start gets past it
	// and stumbles over the next.
	refusedStart(t, e, 3, append(common, "--xds-socket", dead, "--feed-socket", dir+"/feed.sock", "--status-socket", dir+"/alive.sock"), "somebody listens on "+dir+"/alive.sock already")
	must(t, e.StartAgent())
	ready(t, e)
	connected(t, e)
}

// A state file that cannot be used is set aside and said; the node starts.
func TestUnusableStateFile(t *testing.T) {
	leaks.None(t, w.lab, leaks.Any)
	f := deploy(t, "foreign", `["unit"]`)
	f.served(t)
	e := named(t, "a-1")
	path := e.Dir + "/state/state"
	e.Agent.Signal(syscall.SIGTERM)
	good, err := os.ReadFile(path)
	must(t, err)
	newer := append([]byte{}, good...)
	newer[11]++ // of the format's number
	for what, tc := range map[string]struct {
		data []byte
		say  string
	}{
		"cut off": {good[:len(good)/2], "is cut off"},
		"foreign": {[]byte("apiVersion: v1\nkind: Config\n"), "is no gridmesh state"},
		"newer":   {newer, "was written by a newer gridmesh"},
		"empty":   {nil, "is no gridmesh state"},
	} {
		_ = os.Remove(path + ".bad")
		must(t, os.WriteFile(path, tc.data, 0o600))
		must(t, e.StartAgent())
		ready(t, e)
		connected(t, e)
		if log := e.Agent.Log(); !strings.Contains(log, tc.say) || !strings.Contains(log, path+".bad") {
			t.Errorf("%s: the log does not say %q and where the file is:\n%s", what, tc.say, log)
		}
		if aside, err := os.ReadFile(path + ".bad"); err != nil || string(aside) != string(tc.data) {
			t.Errorf("%s: not set aside: %v", what, err)
		}
		if _, err := edge.Ask(f.pods[e.Name].NS, "tcp", f.at(0), answers); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		e.Agent.Signal(syscall.SIGTERM)
	}
	must(t, e.StartAgent())
	ready(t, e)
	connected(t, e)
}

// Absurd sizes are served or named; the Service beside them is served.
func TestAbsurdSizes(t *testing.T) {
	leaks.None(t, w.lab, leaks.Any)
	good, crowd := deploy(t, "sober", `["unit"]`), deploy(t, "crowd", `["unit"]`)
	good.served(t)
	e := named(t, "b-1")

	// 5000 endpoints, all on this node so that all are in the first tier; one
	// of them, the last, lives. Its like are refused at once by the pod's kernel.
	pod := crowd.pods[e.Name]
	ends := make([]backend, 0, 5001)
	for i := range 4999 {
		ends = append(ends, backend{netip.AddrFrom4([4]byte{10, 99, byte(i / 250), byte(1 + i%250)}), e.Name})
	}
	ends = append(ends, backend{pod.IP, e.Name}, backend{pod.IP6, e.Name})
	crowd.ends = ends
	w.state.service(crowd.service)

	// A megabyte of annotation, and names as long as they may be.
	longest := service{name: strings.Repeat("n", 63), keys: `["` + strings.Repeat("x", 1<<20) + `"]`, ips: []netip.Addr{netip.MustParseAddr("10.96.7.250"), netip.MustParseAddr("fd00:96::7fa")}, ends: good.ends}
	w.state.service(longest)
	w.state.files["node-longest"] = fmt.Sprintf("---\napiVersion: v1\nkind: Node\nmetadata: {name: %s, labels: {unit: %s}}\n", strings.Repeat("n", 253), strings.Repeat("u", 63))
	t.Cleanup(func() {
		w.state.remove(longest.name)
		delete(w.state.files, "node-longest")
		must(t, w.state.write())
	})
	must(t, w.state.write())

	// An agent with race detectors reads all this again and again: 36 s on the
	// slowest machine.
	wait.Eventually(t, func() error {
		text, err := e.Admin("/clusters")
		if n := strings.Count(text, "::health_flags::"); err == nil && n < 5000 {
			err = fmt.Errorf("Envoy has %d endpoints", n)
		}
		return err
	})
	// The next reading may have been the first that saw all the files.
	wait.Eventually(t, func() error {
		out, err := e.Run("status")
		if err == nil && (!strings.Contains(string(out), "default/"+longest.name) || !strings.Contains(string(out), "topologyKeys") || len(out) > 64<<10) {
			err = fmt.Errorf("status does not name the annotation, or at length (%d bytes)", len(out))
		}
		return err
	})
	for i := range good.ips {
		if _, err := edge.Ask(good.pods[e.Name].NS, "tcp", good.at(i), answers); err != nil {
			t.Errorf("the Service beside them: %v", err)
		}
	}
	if a, err := edge.Ask(e.NS, "tcp", crowd.at(1), answers); err != nil || a.Name != "crowd-"+e.Name {
		t.Errorf("IPv6 of the crowd: %v, %v", a, err)
	}
	// The malformed Service is closed to the node itself: its own pod answers.
	if a, err := edge.Ask(e.NS, "tcp", longest.at(0), answers); err != nil || a.Name != "sober-"+e.Name {
		t.Errorf("the malformed Service: %v, %v, want the pod of this node", a, err)
	}
	crowd.ends = []backend{{pod.IP, e.Name}}
	w.state.service(crowd.service)
	must(t, w.state.write())
	took := wait.Eventually(t, func() error {
		a, err := edge.Ask(e.NS, "tcp", crowd.at(0), time.Second)
		if err == nil && a.Name != "crowd-"+e.Name {
			err = errors.New(a.Name)
		}
		return err
	})
	t.Logf("4999 endpoints fewer: served after %s", took)
}
