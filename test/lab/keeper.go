package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster"
)

// A kubelet starts what has ended again, later each time: at most keeperMost
// apart, and from keeperFirst on once more after it has run for keeperCalm.
const (
	keeperFirst = time.Second
	keeperMost  = time.Minute
	keeperCalm  = 10 * time.Minute
)

// program is a started process, as edge.Process is one.
type program interface {
	Done() <-chan struct{}
	Running() bool
	Kill()
	ExitCode() int
	Log() string
}

// keeper starts the controller, and again when it has ended: it ends by itself
// when it loses its lease, as on a machine that has no time for it.
type keeper struct {
	start func() (program, error)
	say   func(format string, args ...any)
	wake  chan struct{}

	mu     sync.Mutex
	wanted bool    // people want it to run
	last   program // what runs, or ran last
	began  time.Time
	ended  time.Time // of its last end; zero before
	why    string    // of that
	due    time.Time // when it is started again; zero while it runs
	ends   int       // how often it has ended by itself
	pauses int       // how often in a row
}

// keepController starts the controller, and keeps it running until ctx ends.
func keepController(ctx context.Context, c *cluster.Cluster, flags ...string) (*keeper, error) {
	kubeconfig, err := c.ControllerKubeconfig()
	if err != nil {
		return nil, err
	}
	k := newKeeper(func() (program, error) { return c.StartController(kubeconfig, flags...) }, say)
	if err := k.begin(); err != nil {
		return nil, err
	}
	go k.run(ctx)
	return k, nil
}

func newKeeper(start func() (program, error), say func(string, ...any)) *keeper {
	return &keeper{start: start, say: say, wake: make(chan struct{}, 1)}
}

// run starts the controller again whenever that is due, until ctx ends.
func (k *keeper) run(ctx context.Context) {
	for ctx.Err() == nil {
		done, after := k.step(time.Now())
		select {
		case <-ctx.Done():
			return
		case <-done:
		case <-after:
		case <-k.wake:
		}
	}
}

// step does what is due, and returns what to wait for; nil for nothing.
func (k *keeper) step(now time.Time) (done <-chan struct{}, after <-chan time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.last.Running():
		return k.last.Done(), nil
	case !k.wanted:
		return nil, nil
	case k.due.IsZero():
		k.ends++
		k.put(now, fmt.Sprintf("exit code %d: %s", k.last.ExitCode(), lastLine(k.last.Log())))
	case !now.Before(k.due):
		p, err := k.start()
		if err == nil {
			k.last, k.began, k.due = p, now, time.Time{}
			return p.Done(), nil
		}
		k.put(now, err.Error())
	}
	return nil, time.After(k.due.Sub(now))
}

// put has the controller started again after a pause.
func (k *keeper) put(now time.Time, why string) {
	if now.Sub(k.began) >= keeperCalm {
		k.pauses = 0
	}
	pause := min(keeperFirst<<min(k.pauses, 16), keeperMost)
	k.pauses++
	k.ended, k.why, k.due = now, why, now.Add(pause)
	k.say("the controller has ended (%s); it is started again in %s", why, pause)
}

// begin starts the controller at once, and has it kept.
func (k *keeper) begin() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last != nil && k.last.Running() {
		return errControllerRuns
	}
	p, err := k.start()
	if err != nil {
		return err
	}
	k.last, k.began, k.due, k.pauses, k.wanted = p, time.Now(), time.Time{}, 0, true
	k.tell()
	return nil
}

// stop ends the controller, and has it left so.
func (k *keeper) stop() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.wanted {
		return errControllerStopped
	}
	k.wanted = false
	k.last.Kill()
	k.tell()
	return nil
}

func (k *keeper) tell() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// state says for people what becomes of it.
func (k *keeper) state(now time.Time) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case !k.wanted:
		return "stopped; start it with: lab start controller"
	case !k.last.Running() && k.due.IsZero():
		return "has just ended"
	case !k.last.Running():
		return fmt.Sprintf("ended %s (%s); it is started again in %s", ago(k.ended, now), k.why, max(0, k.due.Sub(now)).Round(time.Second))
	case k.ends > 0:
		return fmt.Sprintf("runs; it ended by itself %s, the last time %s (%s)", times(k.ends), ago(k.ended, now), k.why)
	}
	return "runs"
}

// log is what the one that runs, or ran last, has written.
func (k *keeper) log() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last.Log()
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// lastLine is the last of a log, which says why a program ended.
func lastLine(log string) string {
	const most = 300
	log = strings.TrimSpace(log)
	line := log[strings.LastIndexByte(log, '\n')+1:]
	if len(line) > most {
		line = line[:most] + "..."
	}
	if line == "" {
		return "it said nothing"
	}
	return line
}

// controller ends or starts the one controller of the lab.
func (c *call) controller(on bool) error {
	switch {
	case c.keeper == nil && allReal(c.c):
		return usagef("on real nodes the controller runs in a pod, and a kubelet starts it again; say: lab kubectl -n gridmesh rollout restart deployment/gridmesh-controller")
	case c.keeper == nil:
		return errNoController
	case on:
		return c.keeper.begin()
	}
	return c.keeper.stop()
}
