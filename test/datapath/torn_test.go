package datapath

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/load"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// A syntax error in a file of the manifests of a running agent takes out of service nothing
// of what the file served, and status --check says so, until it is corrected.
func TestSyntaxErrorTakesNothingAway(t *testing.T) {
	leaks.None(t, w.lab, leaks.Any)
	f := deploy(t, "torn", `["unit"]`)
	f.served(t)
	e := named(t, "a-1")
	path := w.state.dir + "/service-torn.yaml"
	whole, err := os.ReadFile(path)
	must(t, err)
	t.Cleanup(func() { _ = os.WriteFile(path, whole, 0o600) })
	told := func(want bool) func() error {
		return func() error {
			out, _ := e.Run("status", "--check") // what else is said of this node is no matter
			if got := strings.Contains(string(out), "--manifests: file "+path+" document 1: is not in force, and all of the file stays as it was before: is no Kubernetes manifest: yaml: line 2: "); got != want {
				return fmt.Errorf("told is %v: %s", got, out)
			}
			return nil
		}
	}
	must(t, told(false)())
	dials := load.Start(t, []*netlab.NS{f.pods[e.Name].NS}, f.at(0))
	must(t, os.WriteFile(path, []byte("apiVersion: v1\n  kind: Service\n"+string(whole)), 0o600))
	wait.Eventually(t, told(true))
	dials.More(t, 10)
	load.NoneFailed(t, "a syntax error", dials.Stop())
	must(t, os.WriteFile(path, whole, 0o600))
	wait.Eventually(t, told(false))
	w.state.remove("torn")
	must(t, w.state.write())
	wait.Eventually(t, func() error {
		if _, err := edge.Ask(f.pods[e.Name].NS, "tcp", f.at(0), time.Second); err == nil {
			return fmt.Errorf("what is removed is still served")
		}
		return nil
	})
}
