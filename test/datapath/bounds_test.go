package datapath

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/load"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// whole asks for all that tenants ask for here; a tenth is asked for without.
const whole = "BOUNDS_WHOLE"

func asked(n int) int {
	if os.Getenv(whole) == "" {
		return n / 10
	}
	return n
}

// beside dials a Service from a node's host and a pod of it until the test is over:
// what the test does costs it no connection, and the agent and Envoy no more than so many MiB.
func beside(t *testing.T, e *edge.Node, f *fleet, agentMiB, envoyMiB int) (end func()) {
	t.Helper()
	size := func() (agent, envoy int) {
		agent, err := e.Agent.ResidentMiB()
		must(t, err)
		envoy, err = e.Envoy.ResidentMiB()
		must(t, err)
		return agent, envoy
	}
	agent, envoy := size()
	dials := load.Start(t, []*netlab.NS{e.NS, f.pods[e.Name].NS}, f.at(0), f.at(1))
	dials.More(t, 20)
	return func() {
		t.Helper()
		dials.More(t, 20)
		load.NoneFailed(t, "the Service beside", dials.Stop())
		agentNow, envoyNow := size()
		t.Logf("agent %d MiB, was %d; Envoy %d MiB, was %d", agentNow, agent, envoyNow, envoy)
		if agentNow > agent+agentMiB || envoyNow > envoy+envoyMiB {
			t.Errorf("the agent has %d MiB more and may have %d, Envoy %d and %d", agentNow-agent, agentMiB, envoyNow-envoy, envoyMiB)
		}
	}
}

// The kernel serves each of a Service's thousands of UDP ports, and one of thousands of
// endpoints, beside a Service that notices neither.
func TestKernelServesCrowds(t *testing.T) {
	leaks.None(t, w.lab, leaks.Any)
	good, crowd := deploy(t, "calm", `["unit"]`), deploy(t, "crowded", `["unit"]`)
	good.served(t)
	e := named(t, "a-1")
	twoPaths(t, e)
	end := beside(t, e, good, 150, 30)
	pod, from := crowd.pods[e.Name], good.pods[e.Name].NS

	ports := make([]int, asked(3000))
	for i := range ports {
		ports[i] = 20000 + i
	}
	many := netip.MustParseAddr("10.96.7.31")
	udpService(t, "ports", "", many, backend{pod.IP, e.Name}, ports...)
	took := wait.Eventually(t, func() error {
		_, err := edge.Ask(from, "udp", netip.AddrPortFrom(many, uint16(ports[len(ports)-1])), time.Second)
		return err
	})
	for _, port := range ports {
		if a, err := edge.Ask(from, "udp", netip.AddrPortFrom(many, uint16(port)), answers); err != nil || a.Name != "crowded-"+e.Name {
			t.Fatalf("UDP port %d: %v, %v", port, a, err)
		}
	}
	t.Logf("%d UDP ports are served after %s", len(ports), took)

	// All addresses of a range are the pod's.
	all := netip.MustParsePrefix("10.99.0.0/16")
	must(t, pod.NS.Own(all))
	must(t, e.NS.Via(all, pod.IP))
	s := service{name: "places", ips: []netip.Addr{netip.MustParseAddr("10.96.7.32")}}
	for i := range asked(5000) {
		s.ends = append(s.ends, backend{netip.AddrFrom4([4]byte{10, 99, byte(i / 250), byte(1 + i%250)}), e.Name})
	}
	w.state.files["service-"+s.name] = strings.ReplaceAll(wideManifest(s), ", annotations: {topologyKeys: ''}", "")
	must(t, w.state.write())
	t.Cleanup(func() { w.state.remove(s.name); must(t, w.state.write()) })
	took = wait.Eventually(t, func() error {
		_, err := edge.Ask(from, "tcp", s.at(0), time.Second)
		return err
	})
	for range 200 {
		if a, err := edge.Ask(from, "tcp", s.at(0), answers); err != nil || a.Name != "crowded-"+e.Name {
			t.Fatalf("one of %d endpoints: %v, %v", len(s.ends), a, err)
		}
	}
	t.Logf("%d endpoints are served after %s", len(s.ends), took)
	end()
}

// scan connects to all of a list, a few at a time, and says how many did and were refused.
func scan(ns *netlab.NS, list []netip.AddrPort) (open, refused, other int64) {
	var next, counts [3]atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			_ = ns.Do(func() error {
				for {
					i := int(next[0].Add(1)) - 1
					if i >= len(list) {
						return nil
					}
					conn, err := net.DialTimeout("tcp", list[i].String(), answers)
					switch {
					case err == nil:
						_ = conn.Close()
						counts[0].Add(1)
					case errors.Is(err, syscall.ECONNREFUSED):
						counts[1].Add(1)
					default:
						counts[2].Add(1)
					}
				}
			})
		})
	}
	wg.Wait()
	return counts[0].Load(), counts[1].Load(), counts[2].Load()
}

// A pod that scans all frontends of a node, and as many ports at which nothing is.
func TestAPodScansAllFrontends(t *testing.T) {
	leaks.None(t, w.lab, leaks.Any)
	good, other := deploy(t, "calmer", `["unit"]`), deploy(t, "scanned", `["unit"]`)
	good.served(t)
	e := named(t, "a-1")
	twoPaths(t, e)
	end := beside(t, e, good, 200, 300)
	t.Cleanup(func() { must(t, w.state.write()) }) // after all of them are removed
	var frontends, nothing []netip.AddrPort
	const each = 100
	for i := range asked(10_000) / each {
		keys := ""
		if i%2 == 0 {
			keys = closedKeys
		}
		name, ip := "scan"+strconv.Itoa(i), netip.AddrFrom4([4]byte{10, 96, 8, byte(1 + i)})
		ports := make([]int, each)
		for n := range ports {
			ports[n] = 1000 + n
			frontends = append(frontends, netip.AddrPortFrom(ip, uint16(1000+n)))
			nothing = append(nothing, netip.AddrPortFrom(ip, uint16(3000+n)))
		}
		w.state.files["service-"+name] = portsManifest(name, keys, "TCP", ip, backend{other.pods[e.Name].IP, e.Name}, ports...)
		t.Cleanup(func() { w.state.remove(name) })
	}
	must(t, w.state.write())
	from := other.pods[e.Name].NS
	for i := each - 1; i < len(frontends); i += each { // a file each, which the agent may read at different times
		wait.Eventually(t, func() error {
			_, err := edge.Ask(from, "tcp", frontends[i], time.Second)
			return wrap(frontends[i].String(), err)
		})
	}
	for _, c := range []struct {
		what string
		list []netip.AddrPort
	}{{"frontends", frontends}, {"frontends again", frontends}, {"ports at which nothing is", nothing}} {
		start := time.Now()
		open, refused, failed := scan(from, c.list)
		t.Logf("%d %s: %d open, %d refused, %d else, in %s", len(c.list), c.what, open, refused, failed, time.Since(start).Round(time.Millisecond))
		if want := int64(len(c.list)); failed > 0 || &c.list[0] == &nothing[0] && refused != want || &c.list[0] != &nothing[0] && open != want {
			t.Errorf("%d %s: %d open, %d refused, %d else", want, c.what, open, refused, failed)
		}
	}
	end()
}
