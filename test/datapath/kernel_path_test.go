package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/load"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// twoPaths restarts a node's agent with both paths, until the end of the test.
func twoPaths(t *testing.T, e *edge.Node, more ...string) {
	t.Helper()
	was := e.Flags
	restart := func(flags []string) {
		e.Agent.Signal(syscall.SIGTERM)
		if code := e.Agent.ExitCode(); code != 0 {
			t.Errorf("exit code %d after SIGTERM:\n%s", code, e.Agent.Log())
		}
		e.Flags = flags
		must(t, e.StartAgent())
		ready(t, e)
		connected(t, e)
	}
	t.Cleanup(func() { restart(was) })
	restart(slices.Concat(was, []string{"--datapath", "auto"}, more))
}

// absent waits until an agent knows whether its Envoy takes connections.
func absent(t *testing.T, e *edge.Node, want string) time.Time {
	t.Helper()
	wait.Eventually(t, func() error {
		got, err := readMetric(e, "gridmesh_envoy_absent")
		if err == nil && got != want {
			err = fmt.Errorf("gridmesh_envoy_absent is %q, want %s", got, want)
		}
		return err
	})
	return time.Now()
}

// busyFor is how long Envoy stands still when it is to be told.
const busyFor = 300 * time.Millisecond

// What is to go to Envoy stays with the kernel until Envoy has taken its endpoints: one that is busy just then, or comes
// back to an agent that was away, would end connections that the kernel had served a moment before.
func TestEnvoyIsHandedWhatItKnows(t *testing.T) {
	f := deploy(t, "busy", `["unit"]`)
	f.served(t)
	e, ends := named(t, "a-1"), f.ends
	twoPaths(t, e)
	absent(t, e, "0")
	t.Cleanup(func() { e.Envoy.Signal(syscall.SIGCONT) })
	has := func(ends []backend) {
		f.ends = ends
		w.state.service(f.service)
		must(t, w.state.write())
	}
	for what, round := range map[string]func(){
		"Envoy is busy": func() {
			e.Envoy.Signal(syscall.SIGSTOP)
			time.AfterFunc(busyFor, func() { e.Envoy.Signal(syscall.SIGCONT) })
			has(ends)
		},
		"the agent was away": func() {
			e.Agent.Signal(syscall.SIGTERM)
			has(ends)
			must(t, e.StartAgent())
		},
	} {
		proved := 0
		for i := 0; i < 3 || proved == 0 && i < 12; i++ { // how much is served until it is handed over is a matter of milliseconds
			has(nil)
			wait.Eventually(t, func() error {
				if err := f.askHost(e); !errors.Is(err, syscall.ECONNREFUSED) {
					return errors.Join(errors.New("not refused without endpoints"), err)
				}
				return nil
			})
			before := metric(t, e, lateAnswers)
			round()
			if f.handedUnfelt(t, e, before) {
				proved++
			}
		}
		if proved == 0 {
			t.Errorf("%s: Envoy was never waited for to the end, or nothing was served meanwhile: that shows nothing", what)
		}
	}
}

func (f *fleet) askHost(e *edge.Node) error {
	_, err := edge.Ask(e.NS, "tcp", f.at(0), answers)
	return err
}

// lateAnswers counts how often Envoy was handed what it had not answered.
const lateAnswers = "gridmesh_envoy_handings_unanswered_total"

// handedUnfelt dials until the rules hand a Service to Envoy, and a little longer: who was served once is always. It reports
// whether somebody was before; an Envoy that answered too late may end connections.
func (f *fleet) handedUnfelt(t *testing.T, e *edge.Node, before string) bool {
	t.Helper()
	served := 0
	var failed error
	took := wait.Eventually(t, func() error {
		switch err := f.askHost(e); {
		case err == nil:
			served++
		case !errors.Is(err, syscall.ECONNREFUSED) || served > 0:
			failed = errors.Join(failed, fmt.Errorf("after %d connections that were served: %w", served, err))
		}
		return handsOver(e, 1)
	})
	for range 5 {
		failed = errors.Join(failed, f.askHost(e))
	}
	late := metric(t, e, lateAnswers)
	t.Logf("Envoy is handed it after %s, and %d connections that were served; %s times it had not answered in time, %s before: %v", took, served, late, before, failed)
	if late != before && late != "0" { // of an agent that began meanwhile it counts from 0
		return false
	}
	must(t, failed)
	return served > 1
}

// What Envoy does not serve the kernel does: UDP of a Service without keys, and a
// node port for who is not of the node.
func TestKernelServesTheRest(t *testing.T) {
	f := deploy(t, "rest", `["unit"]`)
	f.served(t)
	ip := netip.MustParseAddr("10.96.7.21")
	for _, name := range []string{"a-1", "a-2"} { // routed, and bridged
		e := named(t, name)
		twoPaths(t, e)
		udpService(t, "plain", "", ip, backend{f.pods[name].IP, name}, 9999)
		w.state.files["service-door"] = fmt.Sprintf(`---
apiVersion: v1
kind: Service
metadata: {name: door}
spec: {type: NodePort, clusterIP: 10.96.7.22, clusterIPs: [10.96.7.22], ports: [{port: 80, protocol: TCP, nodePort: 30080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: door-4, labels: {kubernetes.io/service-name: door}}
addressType: IPv4
ports: [{port: 8080, protocol: TCP}]
endpoints: [{addresses: [%s], nodeName: %s, conditions: {ready: true}}]
`, f.pods[name].IP, name)
		must(t, w.state.write())
		t.Cleanup(func() { w.state.remove("door"); must(t, w.state.write()) })
		for who, c := range map[string]struct {
			from    *netlab.NS
			network string
			to      netip.AddrPort
		}{
			"a pod, by UDP":           {f.pods[name].NS, "udp", netip.AddrPortFrom(ip, 9999)},
			"the host, by UDP":        {e.NS, "udp", netip.AddrPortFrom(ip, 9999)},
			"another node, by a port": {named(t, "b-1").NS, "tcp", netip.AddrPortFrom(e.IP, 30080)},
			"the host, by a port":     {e.NS, "tcp", netip.AddrPortFrom(e.IP, 30080)},
			"a pod, by a ClusterIP":   {f.pods[name].NS, "tcp", netip.MustParseAddrPort("10.96.7.22:80")},
		} {
			wait.Eventually(t, func() error {
				a, err := edge.Ask(c.from, c.network, c.to, time.Second)
				if err == nil && a.Name != "rest-"+name {
					err = fmt.Errorf("answered by %s", a.Name)
				}
				return wrap(name+", "+who, err)
			})
		}
		if out, err := e.Run("status"); err != nil || !strings.Contains(string(out), "frontends by Envoy") {
			t.Errorf("status of two paths: %v\n%s", err, out)
		}
	}
}

// Behind Envoy the kernel serves the same unit: pods at once, the host as soon as
// the agent knows; and Envoy again when it is back.
func TestEnvoyKilledBeforeTheKernel(t *testing.T) {
	leaks.None(t, w.lab, leaks.Any)
	f := deploy(t, "behind", `["unit"]`)
	f.served(t)
	e := named(t, "a-1")
	twoPaths(t, e)
	absent(t, e, "0")
	pod := f.pods[e.Name].NS
	dials := load.Start(t, []*netlab.NS{e.NS, pod}, f.at(0), f.at(1))
	dials.More(t, 20)
	e.Envoy.Kill() // and waits for its end
	killed := time.Now()
	known := absent(t, e, "1")
	dials.More(t, 50)
	must(t, e.StartEnvoy())
	absent(t, e, "0")
	connected(t, e)
	dials.More(t, 50)
	early := 0
	list := dials.Stop()
	for _, d := range list {
		switch {
		case d.Err == nil && !strings.HasPrefix(d.Name, "behind-a-"):
			t.Errorf("answered by %s, outside of unit a", d.Name)
		case d.Err == nil || d.At.Before(killed): // those that Envoy had end with it
		case d.At.After(known) || strings.Contains(d.Err.Error(), pod.Name):
			t.Errorf("%s after the kill: %v", d.At.Sub(killed), d.Err)
		default:
			early++
		}
	}
	t.Logf("%d connections, %d of the host failed until the agent knew, %s after the kill", len(list), early, known.Sub(killed))
}
