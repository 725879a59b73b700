package migrate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/capture/kubeproxy"
	"github.com/gridmesh/gridmesh/node/report"
)

// twin is a node to which something happens at each look.
type twin struct {
	seen    Seen
	looks   int
	events  map[int]func(*Seen)
	removed int // at which look
}

func (w *twin) Look(context.Context) (Seen, error) {
	w.looks++
	if e := w.events[w.looks]; e != nil {
		e(&w.seen)
	}
	return w.seen, nil
}

func (w *twin) Remove() error {
	w.removed, w.seen.Rules = w.looks, kubeproxy.Rules{}
	return nil
}

// It waits for what begins, leaves alone what may be back, and removes what is left.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &twin{seen: Seen{Rules: byNft, Agent: agent("auto", isBeside, func(r *report.Report) { r.Source = report.None })}}
		w.events = map[int]func(*Seen){3: func(s *Seen) { s.Agent = agent("auto", isBeside) }}
		var out strings.Builder
		if err := Run(t.Context(), w, Want{Datapath: "auto"}, &out); err != nil {
			t.Error(err)
		}
		if w.removed < 6 || strings.Count(out.String(), "\n") != 2 {
			t.Errorf("removed at look %d, and said:\n%s", w.removed, out.String())
		}
	})
}

// What a person has to do ends it, and so does what is in the way, and the time.
func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := func(seen Seen) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			w := &twin{seen: seen}
			err := Run(ctx, w, Want{Datapath: "auto"}, &strings.Builder{})
			if w.removed > 0 {
				t.Error("rules were removed")
			}
			return err
		}
		if err := run(Seen{Rules: byNft, Alive: runs, Agent: agent("auto", isBeside)}); !errors.Is(err, ErrYours) || !strings.Contains(err.Error(), "stop kube-proxy") {
			t.Errorf("it runs: %v", err)
		}
		if err := run(Seen{Rules: kubeproxy.Rules{IPVS: true}}); !errors.Is(err, ErrBlocked) {
			t.Errorf("ipvs: %v", err)
		}
		if err := run(Seen{Rules: byNft, Agent: agent("auto", func(r *report.Report) { r.Error = "x" })}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an agent that does not serve: %v", err)
		}
		if err := run(Seen{Serves: both, Agent: agent("auto")}); err != nil {
			t.Errorf("there: %v", err)
		}
	})
}
