package peer

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/health/vote"
)

// What was recorded on the way counts once, for a while, at one node, until that starts anew.
func TestReplayed(t *testing.T) {
	l := newLab(t, nil, "a", "b", "c")
	a, b := l.nodes["a"], l.nodes["b"]
	for _, to := range []string{"b", "c"} {
		l.must("a", to)
	}
	l.must("a", "b")
	rec := a.sent.last()
	again := func(what, to string, why refusal) {
		t.Helper()
		n, reports := l.nodes[to], l.nodes[to].reports()
		was := n.refused(why)
		if status, _ := l.put(l.addr("a"), to, rec); status != refusals[why].status || n.refused(why) != was+1 || n.reports() != reports {
			t.Errorf("%s: %d, %d refusals for %s, %d reports", what, status, n.refused(why)-was, why, n.reports()-reports)
		}
	}
	again("at once", "b", replayed)
	again("once more", "b", replayed)
	again("to another node", "c", receiver)
	b.shift.Add(int64(window - 15*time.Second))
	again("before its time is over", "b", replayed)
	b.shift.Add(int64(20 * time.Second))
	again("after it", "b", clockOff)
	if n := len(b.p.senders["a"].seen); n != 2 { // it is looked through with what comes
		t.Errorf("%d are remembered", n)
	}
	l.must("a", "b")
	if n := len(b.p.senders["a"].seen); n != 1 {
		t.Errorf("%d are remembered", n)
	}
	b.stop()
	l.start("b")
	again("after a restart", "b", clockOff)
}

// Whatever of a message is changed, and whoever signs it, it does not count.
func TestForged(t *testing.T) {
	l := newLab(t, nil, "a", "b", "c")
	a, b := l.nodes["a"], l.nodes["b"]
	l.must("a", "b")
	l.must("a", "b")
	rec := a.sent.last()
	with := func(change func(r *recorded)) recorded {
		r := rec
		r.body = slices.Clone(r.body)
		change(&r)
		return r
	}
	for name, tc := range map[string]struct {
		recorded
		why refusal
	}{
		"a result":          {with(func(r *recorded) { r.body = bytes.Replace(r.body, []byte(`"yes"`), []byte(`"no"`), 1) }), signature},
		"its sender":        {with(func(r *recorded) { r.body = bytes.Replace(r.body, []byte(`"from":"a"`), []byte(`"from":"c"`), 1) }), signature},
		"its nonce":         {with(func(r *recorded) { r.body = bytes.Replace(r.body, []byte(`"nonce":"`), []byte(`"nonce":"0`), 1) }), signature},
		"a space behind it": {with(func(r *recorded) { r.body = append(r.body, ' ') }), signature},
		"truncated":         {with(func(r *recorded) { r.body = r.body[:len(r.body)-1] }), signature},
		"nothing":           {with(func(r *recorded) { r.body = nil }), signature},
		"its path":          {with(func(r *recorded) { r.method, r.path = http.MethodPost, pathProbe }), signature},
		"half a signature":  {with(func(r *recorded) { r.signature = r.signature[:32] }), signature},
		"no hex":            {with(func(r *recorded) { r.signature = strings.Repeat("x", 64) }), signature},
		"a long signature":  {with(func(r *recorded) { r.signature += "00" }), signature},
		"another key":       {rec.sign([]byte("guessed")), signature},
		"the reply's":       {with(func(r *recorded) { r.signature = fmt.Sprintf("%x", newKey(testKey).ofReply(r.path, "", 200, r.body)) }), signature},
		"no signature":      {with(func(r *recorded) { r.signature = "" }), unsigned},
		"signed, no JSON":   {recorded{http.MethodPut, pathResult, "", []byte(`{"from":`)}.sign(testKey), malformed},
		"signed, no nonce":  {recorded{http.MethodPut, pathResult, "", []byte(`{"from":"a","to":"b"}`)}.sign(testKey), malformed},
		"signed, in its own name": {with(func(r *recorded) {
			r.body = bytes.Replace(r.body, []byte(`"from":"a"`), []byte(`"from":"b"`), 1)
		}).sign(testKey), stranger},
	} {
		t.Run(name, func(t *testing.T) {
			reports, was := b.reports(), b.refused(tc.why)
			if status, body := l.put(l.addr("a"), "b", tc.recorded); status != refusals[tc.why].status || b.refused(tc.why) != was+1 || b.reports() != reports {
				t.Errorf("%d, %d refusals for %s, %d reports: %s", status, b.refused(tc.why)-was, tc.why, b.reports()-reports, body)
			}
		})
	}
	l.must("a", "b") // nothing of it did harm
}

// What is larger than anything that is sent is read no further.
func TestOversized(t *testing.T) {
	l := newLab(t, func(c *Config) { c.Legacy = G2 }, "a", "b")
	huge := bytes.Repeat([]byte(" "), 256<<10)
	for name, r := range map[string]recorded{
		"a report": recorded{http.MethodPut, pathResult, "", huge}.sign(testKey), "a question": recorded{http.MethodPost, pathProbe, "", huge}.sign(testKey),
		"SuperEdge's report": {http.MethodPut, pathResult, "", huge}, "SuperEdge's question": {http.MethodPost, pathProbe, "", huge},
	} {
		if status, body := l.put(l.addr("a"), "b", r); status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if n := l.nodes["b"].refused(tooLarge); n != 4 {
		t.Errorf("%d refusals", n)
	}
}

// The largest unit's largest messages fit.
func TestLargestMessages(t *testing.T) {
	names := make([]string, 101)
	for i := range names {
		names[i] = fmt.Sprintf("n%0252d", i)
	}
	l := newLab(t, func(c *Config) { c.Legacy = G1 })
	for i, name := range names {
		l.unit.Addrs[name] = []netip.Addr{nodeAddr(i)}
	}
	l.start(names[0])
	l.start(names[1]).reply = vote.Reply{Leads: true, Dead: names}
	got, err := l.nodes[names[0]].p.Report(t.Context(), names[1], vote.Reported{Results: l.allWell(names[0])})
	if err != nil || len(got.Dead) != len(names) || len(l.nodes[names[1]].reported[0].Results) != 100 {
		t.Errorf("%d dead, %v", len(got.Dead), err)
	}
	answers, err := l.nodes[names[0]].p.Ask(t.Context(), names[1], names[:100])
	if err != nil || len(answers) != 99 {
		t.Errorf("%d answers, %v", len(answers), err)
	}
}

// A node that sends without an end is refused, in its own room: others are heard.
func TestOneSenderOfMany(t *testing.T) {
	const n = 1000
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("n", i)
	}
	l := newLab(t, nil)
	for i, name := range names {
		l.unit.Addrs[name] = []netip.Addr{nodeAddr(i)}
	}
	b := l.start(names[0])
	k := newKey(testKey)
	send := func(from int) (status int) {
		m := request{From: names[from], To: names[0], View: l.unit.View, Epoch: b.p.clock.epoch, Sent: b.p.clock.at(b.p.now()), Nonce: random()}
		body, err := b.p.encode(pathResult, b.p.unit.Load(), k, m)
		if err != nil {
			t.Fatal(err)
		}
		status, _ = l.put(nodeAddr(from), names[0], recorded{http.MethodPut, pathResult, "", body}.sign(testKey))
		return status
	}
	for taken := 0; ; taken++ {
		if status := send(1); status == http.StatusTooManyRequests {
			if taken < burstPerSource/2 || taken > burstPerSource*5 {
				t.Errorf("refused after %d", taken)
			}
			break
		}
	}
	var all sync.WaitGroup
	room := make(chan struct{}, 16)
	for from := 2; from < n; from++ {
		all.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			for range 2 {
				if status := send(from); status != http.StatusOK {
					t.Errorf("%s: %d", names[from], status)
				}
			}
		})
	}
	all.Wait()
	if got := len(b.p.senders); got != n-1 {
		t.Errorf("%d senders are remembered", got)
	}
	for name, s := range b.p.senders {
		if len(s.seen) > mostSeen(n) || cap(s.seen) > 2*mostSeen(n) {
			t.Errorf("%d requests of %s are remembered", len(s.seen), name)
		}
	}
	if len(b.p.sources) > n+2 || len(b.p.clocks) != 0 || len(b.p.logged) > n {
		t.Errorf("%d sources, %d clocks, %d lines", len(b.p.sources), len(b.p.clocks), len(b.p.logged))
	}
	l.unit.Addrs = map[string][]netip.Addr{names[0]: {nodeAddr(0)}, names[1]: {nodeAddr(1)}}
	b.shift.Add(int64(time.Minute))
	b.p.SetUnit(l.as(names[0]))
	if len(b.p.senders) > 1 || len(b.p.sources) > 3 {
		t.Errorf("of who left %d senders and %d sources are remembered", len(b.p.senders), len(b.p.sources))
	}
}

// A sender has room for what it may send within its window, and is refused beyond that, until
// time passes; nobody's room is another one's.
func TestRoomOfASender(t *testing.T) {
	s, most := &sender{}, mostSeen(10)
	nonce := func(i int) (n [nonceBytes]byte) { n[0], n[1] = byte(i), byte(i>>8); return n }
	for i := range most {
		if why := s.take(1000, nonce(i), 1000, most); why != "" {
			t.Fatal(i, why)
		}
	}
	if why := s.take(1000, nonce(most), 1000, most); why != busy {
		t.Error(why)
	}
	if why := s.take(1000, nonce(0), 1000, most); why != replayed {
		t.Error(why)
	}
	if why := s.take(1000+window.Milliseconds()+1, nonce(most), 2000, most); why != "" || len(s.seen) != 1 {
		t.Error(why, len(s.seen))
	}
	for nodes, want := range map[int]int{2: 64, 1000: 164, 100_000: 256} {
		if got := mostSeen(nodes); got != want {
			t.Errorf("%d nodes: %d", nodes, got)
		}
	}
}

// Who is nowhere in the unit shares a room with all others who are not.
func TestRateOfStrangers(t *testing.T) {
	l := newLab(t, nil, "a", "b")
	forged := recorded{http.MethodPut, pathResult, strings.Repeat("0", 64), []byte("{}")}
	for i := 0; ; i++ {
		status, _ := l.put(nodeAddr(100+i%50), "b", forged)
		if status == http.StatusTooManyRequests {
			break
		}
		if status != http.StatusForbidden || i > burstPerSource*5 {
			t.Fatalf("%d: %d", i, status)
		}
	}
	if l.nodes["b"].refused(rate) == 0 {
		t.Error("it is not counted")
	}
	l.must("a", "b")
	if n := len(l.nodes["b"].p.sources); n > 2 {
		t.Errorf("%d sources are remembered", n)
	}
}

// More questions at once than a node answers are refused, for each dials up to a hundred nodes.
func TestQuestionsAtOnce(t *testing.T) {
	l := newLab(t, nil, "a", "b", "c")
	for range mostAsking {
		l.nodes["b"].p.asking <- struct{}{}
	}
	if _, err := l.nodes["a"].p.Ask(t.Context(), "b", []string{"c"}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "busy") {
		t.Error(err)
	}
	<-l.nodes["b"].p.asking
	if got, err := l.nodes["a"].p.Ask(t.Context(), "b", []string{"c"}); err != nil || len(got) != 1 {
		t.Error(got, err)
	}
}

// Nobody has a node dial whom he wants: not as SuperEdge's, and on the node itself only others of its unit.
func TestNoScanner(t *testing.T) {
	ask := recorded{http.MethodPost, pathProbe, "", []byte(`{"targets":[{"name":"x","ip":"10.77.0.3","port":22,"protocol":"tcp"},{"ip":"192.0.2.1","port":80,"protocol":"tcp"},{"ip":"10.77.0.2"}]}`)}
	l := newLab(t, nil, "a", "b", "c")
	if status, _ := l.put(l.addr("a"), "b", ask); status != http.StatusUnauthorized || len(l.nodes["b"].asked) != 0 {
		t.Errorf("a asks unsigned: %d, and it looks at %v", status, l.nodes["b"].asked)
	}
	if status, _ := l.put(l.addr("a"), "b", recorded{http.MethodGet, "/localinfo", "", nil}); status != http.StatusUnauthorized {
		t.Errorf("a asks for local information: %d", status)
	}
	legacy := newLab(t, func(c *Config) { c.Legacy = G2 }, "a", "b", "c")
	status, body := legacy.put(legacy.addr("a"), "b", ask)
	const want = `{"targets":[{"name":"x","ip":"10.77.0.3","port":22,"protocol":"tcp","normal":true},{"ip":"192.0.2.1","port":80,"protocol":"tcp"},{"ip":"10.77.0.2"}],"sourceNodeIP":"10.77.0.2","sourceNodeName":"b"}`
	if status != 200 || strings.TrimSpace(body) != want || fmt.Sprint(legacy.nodes["b"].asked) != "[[c]]" {
		t.Errorf("as SuperEdge: %d %s, and it looks at %v", status, body, legacy.nodes["b"].asked)
	}
}
