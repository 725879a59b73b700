package datapath

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/load"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// A node that has never run gridmesh starts while its pods dial: from the
// guard on they are refused until they are served, by Envoy or, with auto, by the
// kernel before it, and nothing leaks.
func TestColdStartLeaksNothing(t *testing.T) {
	f := deploy(t, "cold", `["unit"]`)
	f.served(t)
	for _, begin := range []struct{ name, datapath string }{{"a-1", "envoy"}, {"a-2", "envoy"}, {"b-3", "envoy"}, {"a-1", "auto"}} {
		t.Run(begin.name+" "+begin.datapath, func(t *testing.T) {
			name := begin.name
			e := named(t, name)
			if begin.datapath == "auto" {
				twoPaths(t, e)
			}
			e.Envoy.Kill()
			e.Agent.Signal(syscall.SIGTERM)
			if out, err := e.Run("cleanup"); err != nil {
				t.Fatalf("cleanup: %v: %s", err, out)
			}
			must(t, os.RemoveAll(e.Dir+"/state"))
			start := time.Now()
			must(t, e.StartAgent())
			guard := wait.Eventually(t, func() error { return guarded(e) }) // in the kernel, whatever the agent says
			leaks.None(t, w.lab, leaks.Any)
			dials := load.Start(t, []*netlab.NS{e.NS, f.pods[name].NS}, f.at(0), f.at(1))
			dials.More(t, 50) // a node whose Envoy comes late
			envoy := time.Now()
			must(t, e.StartEnvoy())
			ready(t, e)
			f.served(t)
			served := time.Since(envoy)
			list := dials.Stop()
			refused := load.Failed(list)
			for _, d := range refused {
				if !errors.Is(d.Err, syscall.ECONNREFUSED) && !errors.Is(d.Err, syscall.ECONNRESET) {
					t.Errorf("%s after the start: %v after %s", d.At.Sub(start), d.Err, d.Took)
				}
				if d.At.After(envoy.Add(served)) {
					t.Errorf("failed after everything was served: %v", d.Err)
				}
			}
			if len(refused) == 0 && begin.datapath == "envoy" || len(refused) == len(list) { // the kernel may serve at once
				t.Errorf("%d of %d connections were refused", len(refused), len(list))
			}
			t.Logf("guard after %s, served %s after Envoy's start; %d connections, %d refused meanwhile", guard, served, len(list), len(refused))
			if _, err := edge.Ask(f.pods[name].NS, "tcp", f.at(0), answers); err != nil {
				t.Error(err)
			}
			answered(t, f.pods[name].NS, f.at(0), "udp") // whose listener comes by itself
		})
	}
}
