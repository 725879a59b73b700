package flows

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// answers is when what has to be answered has failed: a slow machine is no failure.
	answers = 20 * time.Second
	// A lost first packet of TCP is sent again after a second, so silence is longer.
	silent = 1200 * time.Millisecond
	// atOnce is how many flows of one engine are dialled beside each other.
	atOnce = 48

	dials     = 2  // where there is one answer
	fewDials  = 6  // where there are several, or one of several
	manyDials = 60 // until each of several was seen: one of three is missed once in 10^10
)

// observeAll dials the flows of an engine and returns what came of each.
func (e *engine) observeAll(flows []flow) []outcome {
	list := make([]outcome, len(flows))
	free := make(chan struct{}, atOnce)
	var done sync.WaitGroup
	do := func(these []int) {
		free <- struct{}{}
		done.Go(func() {
			for _, i := range these {
				list[i] = e.observe(flows[i], e.expect(flows[i]))
			}
			<-free
		})
	}
	inTurn := map[*service][]int{}
	for i, f := range flows {
		switch {
		case passesOver(e.name, f):
		case f.affinity && e.expect(f).answered():
			// What is remembered of a client depends on what it dialled before.
			inTurn[f.service] = append(inTurn[f.service], i)
		default:
			do([]int{i})
		}
	}
	for _, these := range inTurn {
		do(these)
	}
	done.Wait()
	return list
}

// observe dials a flow until what is wanted was seen, and no less often than it
// takes to see something else.
func (e *engine) observe(f flow, want outcome) outcome {
	seen := map[string]bool{}
	if want.String() == dropped {
		seen[e.silence(f)] = true
	} else if err := e.clients[f.from].ns.Do(func() error { // once, for it takes a thread
		for n := 0; n < manyDials && !want.settled(seen, n); n++ {
			seen[e.once(f, new(net.Dialer))] = true
		}
		return nil
	}); err != nil {
		seen[err.Error()] = true
	}
	var got outcome
	for _, what := range want.all { // in its order
		if seen[what] {
			got.all = append(got.all, what)
			delete(seen, what)
		}
	}
	if want.sticky && len(seen) == 0 && len(got.all) == 1 {
		return want // whichever it was
	}
	got.all = append(got.all, slices.Sorted(maps.Keys(seen))...)
	return got
}

// settled reports whether it is known, after n dials, if an outcome is the wanted one.
func (o outcome) settled(seen map[string]bool, n int) bool {
	least := dials
	if len(o.all) > 1 {
		least = fewDials
	}
	missing := slices.ContainsFunc(o.all, func(what string) bool { return !seen[what] }) && !o.sticky
	wrong := slices.ContainsFunc(slices.Collect(maps.Keys(seen)), func(what string) bool { return !slices.Contains(o.all, what) })
	return seen[dropped] || !missing && n >= least || wrong && n >= fewDials
}

// once dials a flow once, and says what came of it.
func (e *engine) once(f flow, d dialler) string {
	ctx, cancel := context.WithTimeout(context.Background(), answers)
	defer cancel()
	return e.dial(ctx, f, d)
}

// silence dials a flow of which nothing should come, and says what did.
func (e *engine) silence(f flow) string {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	result := make(chan string, 1)
	go func() { result <- e.dial(ctx, f, from{e.clients[f.from].ns}) }()
	select {
	case what := <-result:
		return what
	case <-time.After(silent):
	}
	// It may be slow. What is dialled later, from there, and is answered says how slow:
	// an answer has had thrice that then, and more.
	start := time.Now()
	if err := e.control(f); err != nil {
		return "nothing, and a control dial: " + err.Error()
	}
	select {
	case what := <-result:
		return what
	case <-time.After(2 * time.Since(start)):
	}
	cancel()
	return <-result
}

func (e *engine) dial(ctx context.Context, f flow, d dialler) string {
	name, source, err := ask(ctx, d, f.network(), e.address(f))
	switch {
	case errors.Is(err, errSilence):
		return dropped
	case err != nil:
		return err.Error()
	}
	return answer(who(name), e.sourceOf(f, source))
}

// sourceOf is an address that an endpoint saw, in the table's words.
func (e *engine) sourceOf(f flow, text string) source {
	ip, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return source(text)
	case slices.Contains(e.own, ip):
		return node // also where the client is the node
	case ip == e.clients[f.from].ip.of(f.ipv6):
		return own
	}
	return source(text)
}

// control dials what every engine answers.
func (e *engine) control(f flow) error {
	ctx, cancel := context.WithTimeout(context.Background(), answers)
	defer cancel()
	c := flow{service: all[0], to: clusterIP, from: f.from, udp: f.udp && e.name != envoy, ipv6: f.ipv6}
	_, _, err := ask(ctx, from{e.clients[f.from].ns}, c.network(), e.address(c))
	return err
}

// passesOver reports whether an engine does not know what a flow is about.
func passesOver(engine string, f flow) bool { return engine == kubeProxy && f.keys != "" }
