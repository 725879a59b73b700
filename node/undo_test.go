package node

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/source"
)

// brokenSource cannot begin: a directory that went between the look at it and
// now.
type brokenSource struct{ *nodetest.Source }

func (brokenSource) Run(context.Context) error { return errBroken }

// A start that fails after the guard is in force takes it away, unless a run
// before had left one: that, and what it served, goes on.
func failedStart(t *testing.T, k kernel) {
	r := newRig(t)
	r.sockets(t)
	start := func() {
		t.Helper()
		p := r.parts()
		p.Capture, p.Source = k.open(), brokenSource{&nodetest.Source{}}
		agent, err := New(r.cfg, p)
		must(t, err)
		if err := agent.Run(t.Context()); !errors.Is(err, errBroken) {
			t.Errorf("the start ended with %v", err)
		}
		for _, socket := range []string{r.cfg.XDSSocket, r.cfg.StatusSocket, r.cfg.FeedSocket} {
			if _, err := os.Stat(socket); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is left: %v", socket, err)
			}
			if list, err := os.ReadDir(filepath.Dir(socket)); err != nil || len(list) > 0 {
				t.Errorf("beside %s are left %v, %v", socket, list, err)
			}
		}
	}
	start()
	if rules, there := k.inForce(); there {
		t.Errorf("a start that failed left %+v", rules)
	}
	apply(t, k.installed(t), view("10"), false)
	r.cfg.ServiceCIDRs = prefixes("10.96.0.0/16", "10.97.0.0/16")
	start()
	k.wantServed(t, "after a start that failed", "10")
	if rules, _ := k.inForce(); !slices.Contains(rules.Guard, serviceRange) {
		t.Errorf("guarded is %v", rules.Guard)
	}
}

// Where there is a last good state it is what the node serves, whatever becomes
// of the source.
func TestAFailedStartKeepsTheLastGoodState(t *testing.T) {
	r := newRig(t)
	r.sockets(t)
	state, err := source.EncodeState(&source.State{Snapshot: webOnly().Snapshot()})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(r.cfg.StateDir, "state"), state, 0o600))
	p := r.parts()
	p.Source = brokenSource{&nodetest.Source{}}
	agent, err := New(r.cfg, p)
	must(t, err)
	if err := agent.Run(t.Context()); !errors.Is(err, errBroken) {
		t.Errorf("the start ended with %v", err)
	}
	if _, there := r.kernel.InForce(); !there {
		t.Error("the guard is gone")
	}
}
