package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/health/vote"
)

// All of a report arrives, and all of what is replied. The first one is sent twice, for the
// other one's clock is not known; the next ones are not.
func TestReport(t *testing.T) {
	l := newLab(t, nil, "a", "b", "c")
	a, b := l.nodes["a"], l.nodes["b"]
	b.reply = vote.Reply{Ups: []string{"b", "a"}, Leader: "c", Age: 1500 * time.Millisecond, Dead: []string{"c"}}
	sent := vote.Reported{From: "somebody", Up: true, Hears: true, Holds: true, Results: []vote.Result{{Node: "b", Answer: vote.Yes}, {Node: "c", Answer: vote.No}}}
	for i := range 3 {
		got, err := a.p.Report(t.Context(), "b", sent)
		if err != nil || !reflect.DeepEqual(got, b.reply) {
			t.Fatalf("%+v, %v, want %+v", got, err, b.reply)
		}
		if n := a.sent.count(); n != i+2 {
			t.Errorf("after %d reports %d were sent", i+1, n)
		}
	}
	want := sent
	want.From = "a"
	if len(b.reported) != 3 || !reflect.DeepEqual(b.reported[2], want) {
		t.Errorf("what arrived is %+v, want %+v", b.reported, want)
	}
	b.reply = vote.Reply{Leads: true}
	if got, err := a.p.Report(t.Context(), "b", vote.Reported{Results: []vote.Result{{Node: "c", Answer: vote.Abstain}}}); err != nil || !reflect.DeepEqual(got, b.reply) {
		t.Errorf("%+v, %v", got, err)
	}
	if got := b.reported[3]; got.Up || got.Hears || got.Holds || !slices.Equal(got.Results, []vote.Result{{Node: "c", Answer: vote.Abstain}}) {
		t.Errorf("%+v", got)
	}
}

func TestAsk(t *testing.T) {
	l := newLab(t, nil, "a", "b", "c", "d", "e")
	b := l.nodes["b"]
	b.answer = func(context.Context, []string) []vote.Result {
		return []vote.Result{{Node: "e", Answer: vote.Abstain}, {Node: "c", Answer: vote.No}, {Node: "d", Answer: vote.Yes}, {Node: "x", Answer: vote.Yes}, {Node: "a", Answer: vote.No}}
	}
	got, err := l.nodes["a"].p.Ask(t.Context(), "b", []string{"d", "c", "e", "b", "c", "x"})
	want := []vote.Result{{Node: "c", Answer: vote.No}, {Node: "d", Answer: vote.Yes}, {Node: "e", Answer: vote.Abstain}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if want := [][]string{{"c", "d", "e"}}; !reflect.DeepEqual(b.asked, want) {
		t.Errorf("the node was asked %v, want %v", b.asked, want)
	}
	if got, err := l.nodes["a"].p.Ask(t.Context(), "b", []string{"x"}); err != nil || len(got) != 0 || len(b.asked) != 1 {
		t.Errorf("about strangers: %v, %v, and the node was asked %v", got, err, b.asked)
	}
}

// A node whose asker waits no more ends what it does for it.
func TestAskIsGivenUp(t *testing.T) {
	l := newLab(t, nil, "a", "b", "c")
	ended := make(chan struct{})
	l.must("a", "b")
	l.nodes["b"].answer = func(ctx context.Context, _ []string) []vote.Result {
		<-ctx.Done()
		close(ended)
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := l.nodes["a"].p.Ask(ctx, "b", []string{"c"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("it goes on")
	}
}

// Without a key nothing is sent and nothing is taken, and it is said why.
func TestNoKey(t *testing.T) {
	l := newLab(t, nil, "a", "b")
	if err := l.nodes["b"].p.SetKeys(); err != nil {
		t.Fatal(err)
	}
	if err := l.report("b", "a"); !errors.Is(err, ErrNoKey) {
		t.Errorf("b sends: %v", err)
	}
	err := l.report("a", "b")
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "--key-file") {
		t.Errorf("b takes: %v", err)
	}
	if n := l.nodes["b"].refused(noKey); n != 1 {
		t.Errorf("%d are counted", n)
	}
	if n := l.log.Count("there is no key"); n != 1 {
		t.Errorf("it is logged %d times: %s", n, l.log.String())
	}
	for name, keys := range map[string][][]byte{"an empty one": {testKey, nil}, "three": {testKey, testKey, testKey}} {
		if err := l.nodes["a"].p.SetKeys(keys...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := l.nodes["b"].p.SetKeys(testKey); err != nil {
		t.Fatal(err)
	}
	l.must("a", "b")
}

func TestWeakKeys(t *testing.T) {
	for raw, want := range map[string]string{"short": "5 bytes", string(testKey): ""} {
		if got := Weak([]byte(raw)); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%q: %q", raw, got)
		}
	}
}

// Who is in no unit sends nothing and takes nothing.
func TestNoUnit(t *testing.T) {
	l := newLab(t, nil, "a", "b")
	if _, err := l.nodes["a"].p.Report(t.Context(), "x", vote.Reported{}); !errors.Is(err, ErrNoUnit) {
		t.Error(err)
	}
	if _, err := l.nodes["a"].p.Ask(t.Context(), "a", nil); !errors.Is(err, ErrNoUnit) {
		t.Error(err)
	}
	fresh, err := New(l.cfg, l.nodes["a"], slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fresh.Report(t.Context(), "b", vote.Reported{}); !errors.Is(err, ErrNoKey) {
		t.Error(err)
	}
	if err := fresh.SetKeys(testKey); err != nil {
		t.Fatal(err)
	}
	if _, err := fresh.Report(t.Context(), "b", vote.Reported{}); !errors.Is(err, ErrNoUnit) {
		t.Error(err)
	}
}

// While a key is changed for another, in any order of the nodes, everything arrives.
func TestKeysAreRotated(t *testing.T) {
	l := newLab(t, nil, "a", "b")
	next := []byte("the next key, which is another one")
	for i, step := range [][2][][]byte{
		{{testKey}, {testKey}},
		{{testKey, next}, {testKey}}, // the new one is everybody's second
		{{testKey, next}, {testKey, next}},
		{{next, testKey}, {testKey, next}}, // then the first
		{{next, testKey}, {next, testKey}},
		{{next}, {next, testKey}}, // then the only one
		{{next}, {next}},
	} {
		for j, name := range []string{"a", "b"} {
			if err := l.nodes[name].p.SetKeys(step[j]...); err != nil {
				t.Fatal(err)
			}
		}
		t.Log("step", i)
		l.must("a", "b")
		l.must("b", "a")
	}
	if err := l.nodes["b"].p.SetKeys(testKey); err != nil { // who was away meanwhile
		t.Fatal(err)
	}
	if err := l.report("a", "b"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "all nodes of a unit need the same") {
		t.Errorf("with different keys: %v", err)
	}
}

// Clocks that are an hour apart, and jump, cost a request each time and nothing else.
func TestClocksApart(t *testing.T) {
	l := newLab(t, nil, "a", "b")
	a, b := l.nodes["a"], l.nodes["b"]
	a.shift.Store(int64(time.Hour))
	b.shift.Store(-int64(time.Hour))
	l.must("a", "b")
	l.must("b", "a")
	before := a.sent.count()
	l.must("a", "b")
	if n := a.sent.count() - before; n != 1 {
		t.Errorf("%d requests for one report", n)
	}
	for _, jump := range []time.Duration{time.Hour, -2 * time.Hour, 30 * 24 * time.Hour, 20 * time.Second, -20 * time.Second, 40 * time.Second} {
		a.shift.Add(int64(jump))
		l.must("a", "b")
		l.must("b", "a")
		b.shift.Add(int64(jump))
		l.must("a", "b")
		l.must("b", "a")
	}
	b.stop() // and it starts again, from nothing
	b = l.start("b")
	l.must("a", "b")
	if b.refused(clockOff) != 1 {
		t.Errorf("%d refusals for what was of before the start", b.refused(clockOff))
	}
}

// What was sent a while ago counts, and what seems to be of a little later, but nothing of
// another beginning.
func TestClock(t *testing.T) {
	began := time.Now()
	c := clock{"this", began}
	now := began.Add(time.Minute)
	for sent, want := range map[int64]bool{29_999: false, 30_000: true, 60_000: true, 65_000: true, 65_001: false, -1: false} {
		if got := c.counts(now, "this", sent); got != want {
			t.Errorf("sent at %d ms, and it is 60000: %v", sent, got)
		}
		if c.counts(now, "that", sent) {
			t.Errorf("%d ms of before a restart counts", sent)
		}
	}
	other := theirs{"this", 500, began}
	if got := other.now(now); got != 60_500 {
		t.Errorf("%d", got)
	}
}

// A node that knows other members answers, but does not count what is said, on either side.
func TestWrongView(t *testing.T) {
	l := newLab(t, nil, "a", "b", "c")
	b := l.nodes["b"]
	other := l.as("b")
	other.View = "view 2"
	b.p.SetUnit(other)
	if err := l.report("a", "b"); !errors.Is(err, ErrView) || errors.Is(err, ErrRefused) {
		t.Errorf("a to b: %v", err)
	}
	if _, err := b.p.Ask(t.Context(), "a", []string{"c"}); !errors.Is(err, ErrView) {
		t.Errorf("b to a: %v", err)
	}
	if b.reports() != 0 || len(l.nodes["a"].asked) != 0 || b.refused(viewOff) != 1 {
		t.Errorf("%d reports, %d questions, %d refusals", b.reports(), len(l.nodes["a"].asked), b.refused(viewOff))
	}
	b.p.SetUnit(l.as("b"))
	l.must("a", "b")
}

// Who is not in the unit of the receiver is nobody, whatever it signs.
func TestStrangers(t *testing.T) {
	l := newLab(t, nil, "a", "b", "c")
	without := l.as("b")
	delete(without.Addrs, "c")
	l.nodes["b"].p.SetUnit(without)
	if err := l.report("c", "b"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "sender") {
		t.Errorf("%v", err)
	}
	if _, ok := l.nodes["b"].p.senders["c"]; ok {
		t.Error("it is remembered")
	}
}

// A name is worth its address: with the key of all another node speaks for itself alone.
func TestAddresses(t *testing.T) {
	l := newLab(t, nil, "a", "b", "c")
	l.must("a", "b")
	l.must("b", "a")
	rec := l.nodes["a"].sent.last()
	if status, _ := l.put(l.addr("c"), "b", rec); status != http.StatusForbidden || l.nodes["b"].refused(address) != 1 {
		t.Errorf("from c's address: %d", status)
	}
	nat := newLab(t, func(c *Config) { c.NAT = true }, "a", "b", "c")
	nat.unit.Addrs["a"] = []netip.Addr{nodeAddr(9)} // behind it, it comes from elsewhere
	for _, n := range nat.nodes {
		n.p.SetUnit(nat.as(n.name))
	}
	if err := nat.report("a", "b"); err != nil || nat.nodes["b"].reports() != 1 {
		t.Errorf("behind NAT: %v", err)
	}
}

// A node with several addresses sends from the one that is known of it, which the kernel
// would not choose.
func TestSeveralAddresses(t *testing.T) {
	l := newLab(t, nil, "a", "b")
	l.unit.Addrs["a"] = []netip.Addr{nodeAddr(8), l.addr("a")}
	for _, n := range l.nodes {
		n.p.SetUnit(l.as(n.name))
	}
	l.must("a", "b")
	gone := l.as("a")
	gone.Addrs["a"] = []netip.Addr{netip.MustParseAddr("192.0.2.1")} // that this machine has not: the kernel chooses
	l.nodes["a"].p.SetUnit(gone)
	if err := l.report("a", "b"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "address") {
		t.Errorf("%v", err)
	}
}

// Two nodes that have one address are told apart, and who answers for another one is found out.
func TestOneAddressOfTwo(t *testing.T) {
	l := newLab(t, nil, "a", "b", "c")
	confused := l.as("a")
	confused.Addrs["c"] = []netip.Addr{l.addr("b")}
	l.nodes["a"].p.SetUnit(confused)
	if err := l.report("a", "c"); err == nil || !strings.Contains(err.Error(), `"b" answers there`) {
		t.Errorf("%v", err)
	}
	if l.nodes["b"].reports() != 0 || l.nodes["b"].refused(receiver) != 1 {
		t.Errorf("b took it, or %d refusals", l.nodes["b"].refused(receiver))
	}
}

// Who has no key and stands between two nodes can make nobody believe anything.
func TestForgedReplies(t *testing.T) {
	l := newLab(t, nil, "a", "b", "c")
	l.must("a", "b")
	l.nodes["b"].stop()
	good := func(r *http.Request, m request) (int, reply) {
		return 200, reply{From: "b", Epoch: strings.Repeat("0", nonceLength), Leads: true, Dead: []string{"c"}}
	}
	k := newKey(testKey)
	for name, tc := range map[string]struct {
		make func(r *http.Request, m request) (int, reply)
		sign func(path, nonce string, status int, text []byte) string
		want string
	}{
		"signed": {good, func(path, nonce string, status int, text []byte) string {
			return fmt.Sprintf("%x", k.ofReply(path, nonce, status, text))
		}, ""},
		"not signed": {good, func(string, string, int, []byte) string { return "" }, "200 OK"},
		"another key": {good, func(path, nonce string, status int, text []byte) string {
			return fmt.Sprintf("%x", newKey([]byte("guessed")).ofReply(path, nonce, status, text))
		}, "another one's"},
		"to another request": {good, func(path, _ string, status int, text []byte) string {
			return fmt.Sprintf("%x", k.ofReply(path, random(), status, text))
		}, "another one's"},
		"on another path": {good, func(_, nonce string, status int, text []byte) string {
			return fmt.Sprintf("%x", k.ofReply(pathProbe, nonce, status, text))
		}, "another one's"},
		"another status": {good, func(path, nonce string, _ int, text []byte) string {
			return fmt.Sprintf("%x", k.ofReply(path, nonce, 409, text))
		}, "another one's"},
		"as a request": {good, func(path, _ string, _ int, text []byte) string {
			return fmt.Sprintf("%x", k.ofRequest(http.MethodPut, path, text))
		}, "another one's"},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", netip.AddrPortFrom(l.addr("b"), l.cfg.Port).String())
			if err != nil {
				t.Fatal(err)
			}
			s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var m request
				_ = json.NewDecoder(r.Body).Decode(&m)
				status, out := tc.make(r, m)
				text, _ := json.Marshal(out)
				if signature := tc.sign(r.URL.Path, m.Nonce, status, text); signature != "" {
					w.Header().Set(header, signature)
				}
				w.WriteHeader(status)
				_, _ = w.Write(text)
			})}
			go func() { _ = s.Serve(listener) }()
			defer s.Close()
			got, err := l.nodes["a"].p.Report(t.Context(), "b", vote.Reported{})
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) || got.Leads != (tc.want == "") {
				t.Errorf("%+v, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// What a peer replies is read as far as a reply may go, and a redirect goes nowhere.
func TestOddReplies(t *testing.T) {
	l := newLab(t, nil, "a", "b")
	l.nodes["b"].stop()
	for name, h := range map[string]http.HandlerFunc{
		"without an end": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 64<<10))
			}
		},
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		},
		"nothing": func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", netip.AddrPortFrom(l.addr("b"), l.cfg.Port).String())
			if err != nil {
				t.Fatal(err)
			}
			s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: h}
			go func() { _ = s.Serve(listener) }()
			defer s.Close()
			began := time.Now()
			if _, err := l.nodes["a"].p.Report(t.Context(), "b", vote.Reported{}); err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, after %s", err, time.Since(began))
			} else if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

// What is too much is not sent.
func TestBoundsOfTheSender(t *testing.T) {
	l := newLab(t, nil, "a", "b")
	many := make([]string, mostTargets+1)
	results := make([]vote.Result, mostTargets+1)
	for i := range many {
		many[i] = fmt.Sprint("n", i)
		results[i] = vote.Result{Node: many[i], Answer: vote.No}
	}
	if _, err := l.nodes["a"].p.Ask(t.Context(), "b", many); err == nil || !strings.Contains(err.Error(), "100 are the most") {
		t.Error(err)
	}
	if _, err := l.nodes["a"].p.Report(t.Context(), "b", vote.Reported{Results: results}); err == nil || !strings.Contains(err.Error(), "100 are the most") {
		t.Error(err)
	}
}

// The unit changes, keys change, and all report to all, at once.
func TestAllAtOnce(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	l := newLab(t, nil, names...)
	var all sync.WaitGroup
	for _, from := range names {
		for _, to := range names {
			if from != to {
				all.Go(func() {
					for range 10 {
						if err := l.report(from, to); err != nil {
							t.Errorf("%s to %s: %v", from, to, err)
						}
						if _, err := l.nodes[from].p.Ask(t.Context(), to, names); err != nil {
							t.Errorf("%s asks %s: %v", from, to, err)
						}
					}
				})
			}
		}
		all.Go(func() {
			for range 50 {
				l.nodes[from].p.SetUnit(l.as(from))
				_ = l.nodes[from].p.SetKeys(testKey, []byte("another one"))
			}
		})
	}
	all.Wait()
}

// No secret is in what is logged, or in an error.
func TestNothingSecretIsLogged(t *testing.T) {
	l := newLab(t, func(c *Config) { c.Legacy = G1 }, "a", "b")
	secret := []byte("weak, hunter2")
	if err := l.nodes["b"].p.SetKeys(secret); err != nil {
		t.Fatal(err)
	}
	err := l.report("a", "b")
	_, _ = l.put(l.addr("a"), "b", recorded{http.MethodPut, pathResult, "", []byte(`{"SourceIP":"x","Hmac":"hunter2"}`)})
	if text := l.log.String() + err.Error(); strings.Contains(text, "hunter2") || strings.Contains(text, string(testKey)) || !strings.Contains(text, "13 bytes") {
		t.Error(text)
	}
	if n := l.log.Count("is refused"); n != 1 {
		t.Errorf("one reason of one node is logged %d times: %s", n, l.log.String())
	}
}

func TestConfig(t *testing.T) {
	for name, change := range map[string]func(c *Config){
		"no port": func(c *Config) { c.Port = 0 }, "no dialect": func(c *Config) { c.Legacy = "v1" }, "no time": func(c *Config) { c.AskTimeout = 0 },
	} {
		c := Default()
		change(&c)
		if _, err := New(c, nil, slog.Default(), prometheus.NewRegistry()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
