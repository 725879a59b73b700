package peer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/health/vote"
)

// What there was no room to send says so: of the other node it says nothing.
func TestNoRoomToSend(t *testing.T) {
	l := newLab(t, nil, "a", "b")
	a := l.nodes["a"]
	for range mostAway {
		a.p.away <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.p.Report(ctx, "b", vote.Reported{}); !errors.Is(err, ErrNotSent) {
		t.Errorf("reported: %v", err)
	}
	if _, err := a.p.Ask(ctx, "b", []string{"a"}); !errors.Is(err, ErrNotSent) {
		t.Errorf("asked: %v", err)
	}
	<-a.p.away
	l.must("a", "b")
}

// A question waits for room for no longer than leaves time for its answer, and says then that it was
// not sent; so does one that found room late, and had no time left. One that was not answered in all
// the time it had says something of the other node.
func TestRoomThatComesLate(t *testing.T) {
	const timeout = 2 * time.Second
	l := newLab(t, func(c *Config) { c.AskTimeout = timeout }, "a", "b")
	a, b := l.nodes["a"], l.nodes["b"]
	b.answer = func(ctx context.Context, _ []string) []vote.Result { <-ctx.Done(); return nil }
	if _, err := a.p.Ask(t.Context(), "b", []string{"a"}); err == nil || errors.Is(err, ErrNotSent) {
		t.Errorf("not answered: %v", err)
	}
	for range mostAway {
		a.p.away <- struct{}{}
	}
	begin := time.Now()
	if _, err := a.p.Ask(t.Context(), "b", []string{"a"}); !errors.Is(err, ErrNotSent) || time.Since(begin) > timeout*9/10 {
		t.Errorf("no room: %v, after %s", err, time.Since(begin))
	}
	room := time.AfterFunc(timeout/4, func() { <-a.p.away })
	defer room.Stop()
	if _, err := a.p.Ask(t.Context(), "b", []string{"a"}); !errors.Is(err, ErrNotSent) {
		t.Errorf("room came late: %v", err)
	}
}

// Questions that nobody signed, of the node itself or as SuperEdge's, take no room of the unit's.
func TestUnsignedQuestionsAtOnce(t *testing.T) {
	l := newLab(t, func(c *Config) { c.Legacy = G2 }, "a", "b", "c")
	b := l.nodes["b"]
	free, under := make(chan struct{}), make(chan struct{}, mostAsking)
	b.answer = func(_ context.Context, nodes []string) (list []vote.Result) {
		under <- struct{}{}
		<-free
		return []vote.Result{{Node: nodes[0], Answer: vote.Yes}}
	}
	ask := recorded{http.MethodPost, pathProbe, "", fmt.Appendf(nil, `{"targets":[{"ip":%q}]}`, l.addr("c"))}
	var all sync.WaitGroup
	for range mostAsking {
		all.Go(func() { l.put(l.addr("c"), "b", ask) })
	}
	for range mostAsking {
		<-under
	}
	if status, _ := l.put(l.addr("c"), "b", ask); status != http.StatusTooManyRequests {
		t.Errorf("one more of these: %d", status)
	}
	b.mu.Lock()
	b.answer = func(context.Context, []string) []vote.Result { return []vote.Result{{Node: "c", Answer: vote.Yes}} }
	b.mu.Unlock()
	if got, err := l.nodes["a"].p.Ask(t.Context(), "b", []string{"c"}); err != nil || len(got) != 1 {
		t.Errorf("a's signed one: %v, %v", got, err)
	}
	close(free)
	all.Wait()
}

// Who has the key can name whom it likes: of that no more is remembered and logged than there are
// nodes, and what was said is not said anew because somebody joins.
func TestRefusalsAreFewInTheLog(t *testing.T) {
	l := newLab(t, nil, "a", "b")
	b := l.nodes["b"]
	forge := func(from, to string) {
		t.Helper()
		r := recorded{http.MethodPut, pathResult, "", fmt.Appendf(nil, `{"from":%q,"to":%q,"nonce":%q}`, from, to, random())}
		if status, body := l.put(l.addr("a"), "b", r.sign(testKey)); status == http.StatusOK {
			t.Fatal(body)
		}
	}
	for i := range 50 {
		forge(fmt.Sprint("nobody-", i), "b")
		forge(fmt.Sprint("nobody-", i), "somebody")
	}
	if n := l.log.Count("is refused"); n != 2 || len(b.p.logged) != 2 {
		t.Errorf("two reasons of one node are logged %d times, and %d are remembered", n, len(b.p.logged))
	}
	l.unit.Addrs["c"] = []netip.Addr{nodeAddr(2)}
	b.p.SetUnit(l.as("b"))
	forge("nobody", "b")
	if n := l.log.Count("is refused"); n != 2 {
		t.Errorf("after another one joined they are logged %d times", n)
	}
	delete(l.unit.Addrs, "a")
	b.p.SetUnit(l.as("b"))
	if len(b.p.logged) > 0 {
		t.Errorf("%d are remembered of who is gone", len(b.p.logged))
	}
}
