package datapath

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// toTheKernel are ways to have the kernel of a node serve what Envoy served, all of it.
var toTheKernel = map[string]func(t *testing.T, e *edge.Node, list []service){
	"an agent that rolls": func(t *testing.T, e *edge.Node, _ []service) {
		e.Agent.Signal(syscall.SIGTERM)
		e.Flags = slices.Concat(e.Flags, []string{"--datapath", "kernel"})
		must(t, e.StartAgent())
	},
	"the Services say so": func(t *testing.T, _ *edge.Node, list []service) {
		for _, s := range list {
			file := "service-" + s.name
			w.state.files[file] = strings.Replace(w.state.files[file], "annotations: {", "annotations: {gridmesh.io/datapath: kernel, ", 1)
		}
		must(t, w.state.write())
	},
}

// What Envoy was handed before the kernel serves all, and has not dialled yet, is answered:
// by a pod of another node, and by the pod itself that dials.
func TestHandedToEnvoyBeforeTheKernelServes(t *testing.T) {
	for name, far := range wards {
		for way, move := range toTheKernel {
			t.Run(name+", "+way, func(t *testing.T) { handedBefore(t, named(t, name), far, move) })
		}
	}
}

func handedBefore(t *testing.T, e *edge.Node, far string, move func(*testing.T, *edge.Node, []service)) {
	f := deploy(t, "handed", `["unit"]`)
	other := service{name: "handed-far", keys: f.keys, ips: ownIPs(t)}
	ends := func(node string) []backend {
		return []backend{{f.pods[node].IP, node}, {f.pods[node].IP6, node}}
	}
	f.ends, other.ends = ends(e.Name), ends(far)
	list := []service{f.service, other}
	for _, s := range list {
		w.state.service(s)
	}
	must(t, w.state.write())
	t.Cleanup(func() { w.state.remove(other.name); must(t, w.state.write()) })
	twoPaths(t, e)
	absent(t, e, "0")
	pod := f.pods[e.Name].NS
	for _, s := range list {
		for i := range s.ips {
			wait.Eventually(t, func() error {
				_, err := edge.Ask(pod, "tcp", s.at(i), time.Second)
				return wrap(s.name, err)
			})
		}
	}
	wait.Eventually(t, func() error { return handsOver(e, 2) }) // of each family

	e.Envoy.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { e.Envoy.Signal(syscall.SIGCONT) })
	waiting := askAll(t, pod, list)
	move(t, e, list)
	t.Logf("the kernel serves after %s", wait.Eventually(t, func() error { return handsOver(e, 0) }))
	for what, answer := range waiting {
		select {
		case err := <-answer:
			t.Fatalf("%s: %v, though Envoy stands still: it was not handed that", what, err)
		default:
		}
	}
	e.Envoy.Signal(syscall.SIGCONT)
	goes := time.Now()
	for what, answer := range waiting {
		if err := <-answer; err != nil {
			t.Errorf("%s: %s after Envoy went on: %v", what, time.Since(goes), err)
		}
	}
	t.Logf("all have ended %s after Envoy went on", time.Since(goes))
}

// askAll dials Services that have one endpoint each, at each address, and asks who it is. What
// becomes of that comes by the channels.
func askAll(t *testing.T, from *netlab.NS, list []service) map[string]chan error {
	t.Helper()
	asked := map[string]chan error{}
	for _, s := range list {
		for i, ip := range s.ips {
			l, answer := call(t, from, "tcp", s.at(i)), make(chan error, 1)
			asked[fmt.Sprintf("%s, %s", s.name, ip)] = answer
			go func() {
				name, err := l.whoWithin(wait.Patience)
				if want := "handed-" + s.ends[0].node; err == nil && name != want {
					err = fmt.Errorf("answered by %s, want %s", name, want)
				}
				answer <- err
			}()
		}
	}
	return asked
}

// handsOver wants the rules of a node to hand so many frontends of each family to Envoy.
func handsOver(e *edge.Node, want int) error {
	conn, err := e.NS.NFT()
	if err != nil {
		return err
	}
	table := &nftables.Table{Family: nftables.TableFamilyINet, Name: "gridmesh"}
	for _, name := range []string{"serve4", "serve6"} {
		list, err := conn.GetSetElements(&nftables.Set{Table: table, Name: name})
		if err != nil {
			return err
		}
		if len(list) != want {
			return fmt.Errorf("%s has %d frontends, want %d", name, len(list), want)
		}
	}
	return nil
}
