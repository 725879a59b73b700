package datapath

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// held lists the clusters of Envoy, by name.
func held(t *testing.T, e *edge.Node) map[string]bool {
	t.Helper()
	text, err := e.Admin("/clusters")
	must(t, err)
	names := map[string]bool{}
	for line := range strings.Lines(text) {
		if i := strings.Index(line, "::observability_name"); i > 0 {
			names[line[:i]] = true
		}
	}
	return names
}

// inspect runs the CLI against the feed of a node's agent.
func inspect(t *testing.T, e *edge.Node, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(edge.Binary("gridmesh"), append(args, "--node", e.Name, "--socket", e.Dir+"/feed.sock")...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("gridmesh %v: %v: %s", args, err, out.Bytes())
	}
	return out.String()
}

// anew starts agent and Envoy of a node with other flags, and with no memory of
// what was used: that would be preloaded.
func anew(t *testing.T, e *edge.Node, flags ...string) {
	t.Helper()
	e.Agent.Signal(syscall.SIGTERM)
	e.Envoy.Kill()
	must(t, os.Remove(e.Dir+"/state/state"))
	e.Flags = flags
	must(t, e.StartAgent())
	must(t, e.StartEnvoy())
	ready(t, e)
	connected(t, e)
}

// Over the cap, clusters are fetched at their first connection, and everybody
// who looks is told.
func TestPreloadCap(t *testing.T) {
	leaks.None(t, w.lab, leaks.Any)
	var fleets []*fleet
	for i := range 3 {
		fleets = append(fleets, deploy(t, fmt.Sprintf("cap%d", i), `["unit"]`))
	}
	for _, f := range fleets {
		f.served(t)
	}
	e := named(t, "a-1")
	kept := e.Flags
	t.Cleanup(func() { anew(t, e, kept...) })
	// UDP clusters have no other way and come always, and take no room: one TCP
	// cluster of six fits.
	anew(t, e, append(kept[:len(kept):len(kept)], "--preload-max", "1")...)

	var first string
	wait.Eventually(t, func() error {
		var tcp []string
		for name := range held(t, e) {
			if strings.HasSuffix(name, ":80") {
				tcp = append(tcp, name)
			}
		}
		if len(tcp) != 1 {
			return fmt.Errorf("Envoy holds the TCP clusters %v, want 1", tcp)
		}
		first = tcp[0]
		return nil
	})
	out, err := e.Run("status")
	must(t, err)
	if want := "5 clusters near this node are over the cap of 1"; !strings.Contains(string(out), want) {
		t.Errorf("status does not say %q:\n%s", want, out)
	}
	table := inspect(t, e, "xds", "--lenient", "--preload-max", "1")
	marks := map[string]int{}
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) > 4 && f[0] == "cluster" && strings.HasSuffix(f[1], ":80") {
			marks[strings.Join(f[3:len(f)-1], " ")]++
		}
	}
	if marks["preloaded"] != 1 || marks["on demand"] != 5 {
		t.Errorf("gridmesh xds marks %v, want 1 preloaded and 5 on demand:\n%s", marks, table)
	}
	for _, f := range fleets {
		for i := range f.ips {
			start := time.Now()
			if _, err := edge.Ask(e.NS, "tcp", f.at(i), answers); err != nil {
				t.Errorf("%s on demand: %v", f.at(i), err)
			}
			t.Logf("%s: first answer after %s", f.at(i), time.Since(start))
		}
	}
	// The one that came first may have made room for one that is in use.
	has := held(t, e)
	for _, f := range fleets {
		for i := range f.ips {
			if name := f.at(i).String(); name != first && !has[name] {
				t.Errorf("Envoy does not hold %s, which was used: %v", name, has)
			}
		}
	}
}

// Envoy keeps what it has fetched on demand, also when the Service is gone, until
// it is started again. docs/limits.md bounds what that costs: once an Envoy lets
// go by itself, this fails, and the bounds may be looked at anew.
func TestEnvoyGivesNoClusterBack(t *testing.T) {
	e := named(t, "a-1")
	var names []string
	for i := range 3 {
		f := deploy(t, fmt.Sprintf("kept%d", i), "") // without keys, and in another unit: nothing is preloaded
		f.ends = []backend{{f.pods["b-1"].IP, "b-1"}}
		w.state.service(f.service)
		must(t, w.state.write())
		name := f.at(0).String()
		names = append(names, name)
		wait.Eventually(t, func() error {
			a, err := edge.Ask(e.NS, "tcp", f.at(0), time.Second)
			if err == nil && a.Name != f.name+"-b-1" {
				err = fmt.Errorf("answered by %s", a.Name)
			}
			return err
		})
		w.state.remove(f.name)
		must(t, w.state.write())
		wait.Eventually(t, func() error {
			if _, err := edge.Ask(e.NS, "tcp", f.at(0), time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
				return fmt.Errorf("without a Service: %w, want connection refused", err)
			}
			return nil
		})
	}
	holds := func(want bool) error {
		has := held(t, e)
		for _, name := range names {
			if has[name] != want {
				return fmt.Errorf("Envoy has cluster %s: %v, want %v", name, has[name], want)
			}
		}
		return nil
	}
	wait.Holds(t, 3*time.Second, func() error { return holds(true) })
	e.Envoy.Kill()
	must(t, e.StartEnvoy())
	ready(t, e)
	connected(t, e)
	must(t, holds(false))
}

// What Envoy holds because it is near is not taken from it when the unit's last endpoint
// goes: with the agent dead at once after that, those of the last tier answer.
func TestWhatWasNearSurvivesTheAgent(t *testing.T) {
	e := named(t, "a-1")
	f := deploy(t, "fell", `["unit","*"]`)
	tier := func(unit string) {
		f.ends = nil
		for name, pod := range f.pods {
			if strings.HasPrefix(name, unit) {
				f.ends = append(f.ends, backend{pod.IP, name}, backend{pod.IP6, name})
			}
		}
		w.state.service(f.service)
		must(t, w.state.write())
		wait.Eventually(t, func() error { // nobody dials: that would have it fetched
			text, err := e.Admin("/clusters")
			must(t, err)
			for i := range f.ips {
				if !strings.Contains(text, f.at(i).String()+"::"+netip.AddrPortFrom([]netip.Addr{f.pods[unit+"-1"].IP, f.pods[unit+"-1"].IP6}[i], 8080).String()+"::") {
					return fmt.Errorf("Envoy has not the endpoints in unit %s of %s", unit, f.at(i))
				}
			}
			return nil
		})
	}
	tier("a")
	tier("b")
	e.Agent.Kill()
	t.Cleanup(func() { must(t, e.StartAgent()); ready(t, e); connected(t, e) })
	for i := range f.ips {
		a, err := edge.Ask(e.NS, "tcp", f.at(i), answers)
		if err != nil || !strings.HasPrefix(a.Name, f.name+"-b-") {
			t.Errorf("%s with the agent dead: answered by %q, %v", f.at(i), a.Name, err)
		}
	}
}
