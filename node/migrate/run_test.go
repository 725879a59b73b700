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
	seen   Seen
	looks  int
	events map[int]func(*Seen) error
}

func (w *twin) Look(context.Context) (s Seen, err error) {
	w.looks++
	if e := w.events[w.looks]; e != nil {
		err = e(&w.seen)
	}
	return w.seen, err
}

var errBroken = errors.New("broken for the test")

// It waits for what begins, for what the agent removes, and for Envoy, also where a look fails.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &twin{seen: Seen{Rules: byNft, Agent: agent("auto", isBeside, func(r *report.Report) { r.Source = report.None })}}
		w.events = map[int]func(*Seen) error{
			3:  func(s *Seen) error { s.Agent = agent("auto", isBeside); return nil },
			4:  func(*Seen) error { return errBroken },
			9:  func(s *Seen) error { s.Rules = kubeproxy.Rules{}; return nil },
			20: func(s *Seen) error { s.Agent = agent("auto"); return nil },
		}
		var out strings.Builder
		if err := Run(t.Context(), w, Want{Datapath: "auto"}, &out); err != nil {
			t.Error(err)
		}
		if text := out.String(); w.looks != 20 || strings.Count(text, "\n") != 6 || !strings.HasSuffix(text, "and its agent runs\n") || !strings.Contains(text, errBroken.Error()) {
			t.Errorf("%d looks, and said:\n%s", w.looks, text)
		}
	})
}

// What a person has to do ends it, and so does what is in the way, and the time.
func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := func(seen Seen, back bool) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return Run(ctx, &twin{seen: seen}, Want{Datapath: "auto", Back: back}, &strings.Builder{})
		}
		for name, tc := range map[string]struct {
			seen Seen
			back bool
			want error
			says string
		}{
			"it runs":                      {Seen{Rules: byNft, Alive: runs, Agent: agent("auto", isBeside)}, false, ErrYours, "stop kube-proxy"},
			"it came, and nobody sees it":  {Seen{Rules: byNft, Agent: agent("auto", looksAtNobody)}, false, ErrYours, "--take-over=kube-proxy"},
			"ipvs":                         {Seen{Rules: kubeproxy.Rules{IPVS: true}}, false, ErrBlocked, "mode: nftables"},
			"an agent that does not serve": {Seen{Rules: byNft, Agent: agent("auto", func(r *report.Report) { r.Error = "x" })}, false, context.DeadlineExceeded, "wait until gridmesh serves"},
			"there":                        {Seen{Serves: both, Agent: agent("auto")}, false, nil, ""},
			"back, it begins":              {Seen{Serves: both, Alive: runs, Agent: agent("kernel")}, true, context.DeadlineExceeded, "wait until it serves"},
			"back, it left rules":          {Seen{Serves: both, Rules: byNft, Theirs: both, Agent: agent("kernel")}, true, ErrYours, "start kube-proxy"},
		} {
			err := run(tc.seen, tc.back)
			if !errors.Is(err, tc.want) || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: %v, want %v with %q", name, err, tc.want, tc.says)
			}
		}
	})
}

// An agent's word that kube-proxy runs may be some seconds old: who has just stopped that is not
// told to stop it. One that goes on is, and so is one that is seen from here at once, and one whose
// end nothing shows.
func TestRunWhileKubeProxyEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		seen  Seen
		ended int // the look that finds it gone; 0: none
		want  error
		took  time.Duration
	}{
		"it has just ended":      {Seen{Alive: runs, Told: true}, 6, nil, 8 * time.Second},
		"the agent sees it":      {Seen{Alive: runs, Told: true}, 0, ErrYours, agentLooks},
		"it is seen":             {Seen{Alive: runs}, 0, ErrYours, 0},
		"its rules alone say so": {Seen{Alive: report.ByRulesAlone, Told: true}, 0, ErrYours, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc.seen.Rules, tc.seen.Agent = byNft, agent("kernel", isBeside)
				w := &twin{seen: tc.seen, events: map[int]func(*Seen) error{
					tc.ended:     func(s *Seen) error { s.Alive, s.Told = "", false; return nil },
					tc.ended + 3: func(s *Seen) error { s.Rules = kubeproxy.Rules{}; return nil },
				}}
				if tc.ended == 0 {
					w.events = nil
				}
				began, out := time.Now(), &strings.Builder{}
				err := Run(t.Context(), w, Want{Datapath: "kernel"}, out)
				if took := time.Since(began); !errors.Is(err, tc.want) || took != tc.took {
					t.Errorf("%v after %s, want %v after %s; it said:\n%s", err, took, tc.want, tc.took, out)
				}
			})
		})
	}
}
