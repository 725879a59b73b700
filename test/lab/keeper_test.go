package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// ran is a program that ends when it is told to.
type ran struct{ done chan struct{} }

func (r ran) Done() <-chan struct{} { return r.done }

func (r ran) Running() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

func (r ran) Kill() {
	if r.Running() {
		close(r.done)
	}
}

func (ran) ExitCode() int { return 1 }

func (ran) Log() string { return "leading\nerror: the lease is lost\n" }

// starter starts programs, and notes when.
type starter struct {
	begin  time.Time
	at     []time.Duration // since begin
	now    ran             // the newest
	faults int             // of the next starts
}

func (s *starter) start() (program, error) {
	s.at = append(s.at, time.Since(s.begin))
	if s.faults > 0 {
		s.faults--
		return nil, errors.New("no memory")
	}
	s.now = ran{make(chan struct{})}
	return s.now, nil
}

// keeping has a keeper at work.
func keeping(t *testing.T, test func(k *keeper, s *starter, said *[]string)) {
	synctest.Test(t, func(t *testing.T) {
		s, said := &starter{begin: time.Now()}, []string{}
		k := newKeeper(s.start, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
		if err := k.begin(); err != nil {
			t.Fatal(err)
		}
		go k.run(t.Context())
		synctest.Wait()
		test(k, s, &said)
	})
}

// What has ended by itself is started again, later each time, until it has run
// for long; each end is said, and the state tells of it.
func TestEndedControllerIsStartedAgain(t *testing.T) {
	keeping(t, func(k *keeper, s *starter, said *[]string) {
		state := func(want ...string) {
			t.Helper()
			got := k.state(time.Now())
			for _, w := range want {
				if !strings.Contains(got, w) {
					t.Errorf("state %q lacks %q", got, w)
				}
			}
		}
		if state("runs"); k.state(time.Now()) != "runs" {
			t.Errorf("before any end: %q", k.state(time.Now()))
		}
		end := func(pause time.Duration) {
			t.Helper()
			ended := time.Since(s.begin)
			s.now.Kill()
			synctest.Wait()
			state("ended 0s ago (exit code 1: error: the lease is lost); it is started again in " + pause.String())
			time.Sleep(pause)
			synctest.Wait()
			if got := s.at[len(s.at)-1] - ended; got != pause || !s.now.Running() {
				t.Errorf("started again %s after its end, want %s", got, pause)
			}
		}
		for _, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
			end(time.Duration(seconds) * time.Second)
		}
		state("runs; it ended by itself 8 times, the last time 1m0s ago (exit code 1: error: the lease is lost)")
		time.Sleep(keeperCalm)
		end(time.Second)
		if len(*said) != 9 || !strings.Contains((*said)[1], "the controller has ended (exit code 1: error: the lease is lost); it is started again in 2s") {
			t.Errorf("said %q", *said)
		}
	})
}

// What people stop stays so until they start it, also while it waits.
func TestStoppedControllerStaysSo(t *testing.T) {
	keeping(t, func(k *keeper, s *starter, _ *[]string) {
		if err := k.begin(); !errors.Is(err, errControllerRuns) {
			t.Errorf("a second start: %v", err)
		}
		stopped := func(what string) {
			t.Helper()
			count := len(s.at)
			time.Sleep(time.Hour)
			synctest.Wait()
			if s.now.Running() || len(s.at) != count || !strings.Contains(k.state(time.Now()), "stopped; start it with: lab start controller") {
				t.Errorf("%s: %d starts more, %s", what, len(s.at)-count, k.state(time.Now()))
			}
			if err := k.stop(); !errors.Is(err, errControllerStopped) {
				t.Errorf("%s: stopped again: %v", what, err)
			}
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		must(k.stop())
		stopped("while it ran")
		must(k.begin())
		s.now.Kill()
		synctest.Wait()
		must(k.stop())
		stopped("while it was to be started again")
		must(k.begin())
		if got := k.state(time.Now()); !s.now.Running() || !strings.HasPrefix(got, "runs; it ended by itself once") {
			t.Error(got)
		}
	})
}

// A start that fails is tried again.
func TestControllerThatCannotBeStarted(t *testing.T) {
	keeping(t, func(k *keeper, s *starter, _ *[]string) {
		s.faults = 1
		s.now.Kill()
		time.Sleep(time.Second)
		synctest.Wait()
		if got := k.state(time.Now()); !strings.Contains(got, "(no memory); it is started again in 2s") {
			t.Error(got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if want := []time.Duration{0, time.Second, 3 * time.Second}; !slices.Equal(s.at, want) || !s.now.Running() {
			t.Errorf("started after %v, want %v", s.at, want)
		}
		s.now.Kill()
		synctest.Wait()
		if err := k.begin(); err != nil || !s.now.Running() { // not after a pause
			t.Error(err, k.state(time.Now()))
		}
		s.faults = 1
		if err := k.stop(); err != nil {
			t.Error(err)
		}
		if err := k.begin(); err == nil || !strings.HasPrefix(k.state(time.Now()), "stopped") {
			t.Errorf("%v, %s", err, k.state(time.Now()))
		}
	})
}
