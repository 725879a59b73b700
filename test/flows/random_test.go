package flows

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

var (
	seed  = flag.Uint64("seed", 1, "of the edits: always the same ones, so that a failure is of what was changed; make flows takes another each time")
	steps = flag.Int("steps", 8, "edits after which flows are dialled")
)

// Services of random histories have numbers of their own, the last one is a mark:
// who has its newest endpoints has everything that was written before.
const (
	firstRandom  = 200
	randomOnes   = 12
	flowsPerStep = 80
)

// history is what random edits have made.
type history struct {
	*rand.Rand
	list  []*service
	mark  *service
	moved bool
}

func (h *history) oneIn(n int) bool { return h.IntN(n) == 0 }

// edit changes a few Services, and now and then a Node.
func (h *history) edit() {
	h.mark.ends = map[string]string{"here": "mate", "mate": "here"}[h.mark.ends]
	if h.oneIn(4) {
		h.moved = !h.moved
	}
	for range 4 {
		i := h.IntN(len(h.list))
		s := *h.list[i]
		switch h.IntN(8) { // another Service is made of it, for the old one may still be read
		case 0:
			s.internalLocal = !s.internalLocal
		case 1:
			s.externalLocal = !s.externalLocal
		case 2:
			s.affinity = !s.affinity
		case 3:
			s.gone = !s.gone
		default:
			s.ends = h.endpoints()
		}
		h.list[i] = &s
	}
	for _, s := range h.list {
		s.moved = h.moved
	}
}

func (h *history) endpoints() string {
	var list []string
	for _, w := range []who{here, mate, far} {
		if !h.oneIn(3) {
			list = append(list, string(w)+string([]condition{ready, ready, ending, unready, ended}[h.IntN(5)]))
		}
	}
	return strings.Join(list, " ")
}

// flows are some of those that there may be.
func (h *history) flows() (list []flow) {
	for range flowsPerStep {
		f := flow{h.list[h.IntN(len(h.list))], []frontend{clusterIP, clusterIP, nodePort, vip}[h.IntN(4)], places[h.IntN(len(places))], h.oneIn(2), h.oneIn(2)}
		if f.gone && f.to == vip { // then it is nobody's, and led on
			f.to = nodePort
		}
		list = append(list, f)
	}
	return list
}

// After random edits each engine does what is expected: all that was known before
// has been taken back, and nothing else.
func TestRandomEdits(t *testing.T) {
	t.Logf("again: go test ./test/flows -run TestRandomEdits -seed %d -steps %d", *seed, *steps)
	h := &history{Rand: rand.New(rand.NewPCG(*seed, 0)), mark: &service{number: firstRandom + randomOnes, ends: "here"}}
	for i := range randomOnes {
		h.list = append(h.list, &service{number: firstRandom + i, ends: h.endpoints(), keys: []string{"", "", `["unit"]`, `["unit","*"]`}[i%4]})
	}
	for step := range *steps {
		h.edit()
		flows := h.flows()
		var done sync.WaitGroup
		for _, e := range engines {
			done.Go(func() {
				if err := e.follow(h, flows); err != nil {
					t.Errorf("seed %d, step %d: %s: %v", *seed, step, e.name, err)
				}
			})
		}
		if done.Wait(); t.Failed() {
			return
		}
	}
}

// converges is five times what it takes from the mark to the last flow, on a busy machine.
const converges = 20 * time.Second

// follow writes a history's objects, and dials.
func (e *engine) follow(h *history, flows []flow) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	if err := e.write(ctx, "random", append(slices.Clone(h.list), h.mark), h.moved); err != nil {
		return err
	}
	if err := wait.Until(ctx, func() error {
		f := flow{service: h.mark, to: clusterIP, from: pod}
		if got, want := e.once(f, from{e.clients[pod].ns}), e.expect(f); got != want.all[0] {
			return fmt.Errorf("the mark: %s, want %s", got, want)
		}
		return nil
	}); err != nil {
		return err
	}
	end := time.Now().Add(converges)
	wrong := func(f flow) error {
		for {
			got, want := e.observe(f, e.expect(f)), e.expect(f)
			if got.String() == want.String() {
				return nil
			}
			if time.Now().After(end) {
				return fmt.Errorf("%s: %s, want %s", f, got, want)
			}
		}
	}
	free, errs := make(chan struct{}, atOnce), make([]error, len(flows))
	var done sync.WaitGroup
	for i, f := range flows {
		if passesOver(e.name, f) || e.name == envoy && (f.to != clusterIP || f.udp) {
			continue // of what Envoy does not serve the table has enough, and its UDP listeners are few
		}
		free <- struct{}{}
		done.Go(func() {
			errs[i] = wrong(f)
			<-free
		})
	}
	done.Wait()
	return errors.Join(errs...)
}
