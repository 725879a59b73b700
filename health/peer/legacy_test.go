package peer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/health/vote"
)

// edgeHealth is a node that runs SuperEdge's edge-health: how that verifies and reads a report,
// by its own rule. It has each of both generations' forms written out here.
type edgeHealth struct {
	t       *testing.T
	dialect Dialect
	key     string
}

func (e edgeHealth) mac(text string) string {
	h := hmac.New(sha256.New, []byte(e.key))
	_, _ = io.WriteString(h, text)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// report is what such a node sends, of one that is well and 10.77.0.3, which is not.
func (e edgeHealth) report(source, well string) recorded {
	var body string
	const not = "10.77.0.3"
	if e.dialect == G1 {
		details := fmt.Sprintf(`{%q:{"Normal":true,"Hamc":"","Time":"0001-01-01T00:00:00Z"},%q:{"Normal":false,"Hamc":"","Time":"0001-01-01T00:00:00Z"}}`, well, not)
		body = fmt.Sprintf(`{"SourceIP":%q,"ResultDetail":%s,"Hmac":%q}`, source, details, e.mac(fmt.Sprintf("%q", source)+details))
	} else {
		details := fmt.Sprintf(`{%q:{"normal":true,"time":1700000000},%q:{}}`, well, not)
		body = fmt.Sprintf(`{"sourceIP":%q,"resultDetail":%s,"hmac":%q}`, source, details, e.mac(fmt.Sprintf("%q", source)+details))
	}
	return recorded{http.MethodPut, pathResult, "", []byte(body)}
}

// unsigned is a report without a signature.
func (e edgeHealth) unsigned(source string) recorded {
	field := map[Dialect]string{G1: "SourceIP", G2: "sourceIP"}[e.dialect]
	return recorded{http.MethodPut, pathResult, "", fmt.Appendf(nil, `{%q:%q}`, field, source)}
}

// takes reads a report as such a node does, and returns what it takes from it.
func (e edgeHealth) takes(body []byte) (source string, well map[string]bool, ok bool) {
	well = map[string]bool{}
	if e.dialect == G1 {
		var m struct {
			SourceIP     string
			ResultDetail map[string]struct {
				Normal bool
				Hamc   string
				Time   time.Time
			}
			Hmac string
		}
		if err := json.Unmarshal(body, &m); err != nil {
			e.t.Error(err)
		}
		for ip, d := range m.ResultDetail {
			well[ip] = d.Normal
		}
		first, _ := json.Marshal(m.SourceIP)
		second, _ := json.Marshal(m.ResultDetail)
		return m.SourceIP, well, m.Hmac == e.mac(string(first)+string(second))
	}
	var m struct {
		SourceIP     string `json:"sourceIP,omitempty"`
		ResultDetail map[string]struct {
			Normal bool   `json:"normal,omitempty"`
			Hmac   string `json:"hmac,omitempty"`
			Time   int64  `json:"time,omitempty"`
		} `json:"resultDetail,omitempty"`
		Hmac string `json:"hmac,omitempty"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		e.t.Error(err)
	}
	for ip, d := range m.ResultDetail {
		well[ip] = d.Normal
	}
	first, _ := json.Marshal(m.SourceIP)
	second, _ := json.Marshal(m.ResultDetail)
	return m.SourceIP, well, m.Hmac == e.mac(string(first)+string(second))
}

var dialects = []Dialect{G1, G2}

// A SuperEdge node of either generation is heard, where that is wanted.
func TestSuperEdgeIsHeard(t *testing.T) {
	for _, d := range dialects {
		e := edgeHealth{t, d, string(testKey)}
		l := newLab(t, func(c *Config) { c.Legacy = G1 }, "a", "b", "c")
		b := l.nodes["b"]
		rec := e.report("10.77.0.1", "10.77.0.2")
		if status, body := l.put(l.addr("a"), "b", rec); status != 200 {
			t.Errorf("%s: %d %s", d, status, body)
		}
		want := []vote.Reported{{From: "a", Up: true, Results: []vote.Result{{Node: "b", Answer: vote.Yes}, {Node: "c", Answer: vote.No}}}}
		if !reflect.DeepEqual(b.reported, want) {
			t.Errorf("%s: %+v", d, b.reported)
		}
		other := rec
		other.body = []byte(strings.Replace(string(rec.body), "rue", "rue ", 1)) // JSON is made again before it is hashed
		if status, body := l.put(l.addr("a"), "b", other); status != 200 {
			t.Errorf("%s: %d %s", d, status, body)
		}
		for name, tc := range map[string]struct {
			from string
			rec  recorded
			why  refusal
		}{
			"another key":           {"a", edgeHealth{t, d, "guessed"}.report("10.77.0.1", "10.77.0.2"), signature},
			"another's address":     {"c", rec, address},
			"no node's":             {"a", e.report("10.77.9.9", "10.77.0.2"), stranger},
			"this node's own":       {"b", e.report("10.77.0.2", "10.77.0.1"), stranger},
			"no address":            {"a", e.report("a", "10.77.0.2"), stranger},
			"no signature":          {"a", edgeHealth{t, d, ""}.unsigned("10.77.0.1"), signature},
			"what cannot be signed": {"a", recorded{http.MethodPut, pathResult, "", []byte(`{"SourceIP":"10.77.0.1","ResultDetail":{"x":{"Time":"9999-12-31T23:59:59+24:00"}}}`)}, signature},
			"no JSON":               {"a", recorded{http.MethodPut, pathResult, "", []byte("x")}, malformed},
			"a time of the other":   {"a", recorded{http.MethodPut, pathResult, "", []byte(`{"SourceIP":"10.77.0.1","ResultDetail":{"x":{"Time":1}}}`)}, malformed},
		} {
			was := b.refused(tc.why)
			if status, body := l.put(l.addr(tc.from), "b", tc.rec); status != refusals[tc.why].status || b.refused(tc.why) != was+1 || b.reports() != 2 {
				t.Errorf("%s, %s: %d %s", d, name, status, body)
			}
		}
	}
}

// A recorded packet of a node that is dead by now: SuperEdge's rule takes it for ever, and in a
// unit with SuperEdge's nodes so do we. Of ours nothing is taken.
func TestARecordedPacketOfADeadNode(t *testing.T) {
	for _, d := range dialects {
		l := newLab(t, func(c *Config) { c.Legacy = d }, "a", "b", "c")
		rec := edgeHealth{t, d, string(testKey)}.report("10.77.0.1", "10.77.0.2")
		l.nodes["a"].stop() // it was SuperEdge's
		l.nodes["b"].shift.Store(int64(30 * 24 * time.Hour))
		if status, _ := l.put(l.addr("a"), "b", rec); status != 200 || l.nodes["b"].reports() != 1 {
			t.Errorf("%s, of a SuperEdge node, a month later: %d", d, status)
		}

		l.must("c", "b")
		first := l.nodes["c"].sent.sent[0] // with what SuperEdge reads beside the rest, for b might be one
		if _, _, ok := (edgeHealth{t, d, string(testKey)}).takes(first.body); !ok {
			t.Errorf("%s: SuperEdge would not take %s", d, first.body)
		}
		last := l.nodes["c"].sent.last()
		l.nodes["c"].stop()
		stripped := first
		stripped.signature = ""
		reports := l.nodes["b"].reports()
		for name, tc := range map[string]struct {
			recorded
			why refusal
		}{
			"as it was": {last, replayed}, "as SuperEdge's": {stripped, downgrade},
		} {
			if status, _ := l.put(l.addr("c"), "b", tc.recorded); status != refusals[tc.why].status || l.nodes["b"].reports() != reports {
				t.Errorf("%s, %s: %d, %d reports", d, name, status, l.nodes["b"].reports()-reports)
			}
		}
		l.nodes["b"].shift.Add(int64(time.Hour))
		if status, _ := l.put(l.addr("c"), "b", last); status != http.StatusConflict || l.nodes["b"].reports() != reports {
			t.Errorf("%s, an hour later: %d", d, status)
		}
	}
}

// What is sent where SuperEdge's nodes are is read by them, and verified.
func TestSuperEdgeHears(t *testing.T) {
	for _, d := range dialects {
		l := newLab(t, func(c *Config) { c.Legacy = d }, "a", "b", "c")
		l.nodes["b"].stop()
		e := edgeHealth{t, d, string(testKey)}
		var got map[string]bool
		listener, err := net.Listen("tcp", netip.AddrPortFrom(l.addr("b"), l.cfg.Port).String())
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if r.URL.Path == pathProbe {
				_, _ = io.WriteString(w, strings.Replace(string(body), `"protocol":"tcp"`, `"protocol":"tcp","normal":false`, 1))
				return
			}
			source, well, ok := e.takes(body)
			if !ok || source != "10.77.0.1" {
				w.WriteHeader(http.StatusForbidden)
			}
			got = well
		})}
		go func() { _ = s.Serve(listener) }()
		reply, err := l.nodes["a"].p.Report(t.Context(), "b", vote.Reported{Results: []vote.Result{{Node: "b", Answer: vote.Yes}, {Node: "c", Answer: vote.No}}})
		if err != nil || !reflect.DeepEqual(reply, vote.Reply{}) || !reflect.DeepEqual(got, map[string]bool{"10.77.0.1": true, "10.77.0.2": true, "10.77.0.3": false}) {
			t.Errorf("%s: %+v, %v; it read %v", d, reply, err, got)
		}
		if _, err := l.nodes["a"].p.Report(t.Context(), "b", vote.Reported{Results: []vote.Result{{Node: "c", Answer: vote.Abstain}}}); err != nil || !reflect.DeepEqual(got, map[string]bool{"10.77.0.1": true}) {
			t.Errorf("%s, of who is not sure: %v; it read %v", d, err, got)
		}
		answers, err := l.nodes["a"].p.Ask(t.Context(), "b", []string{"c"})
		if err != nil || !slices.Equal(answers, []vote.Result{{Node: "c", Answer: vote.No}}) {
			t.Errorf("%s: it answers %v, %v", d, answers, err)
		}
		_ = s.Close()
	}
}

// A SuperEdge node that takes no questions is counted by what it reported last, for as long
// as that counts among its own kind; of one that is silent nothing is.
func TestSuperEdgeIsCountedByItsReport(t *testing.T) {
	l := newLab(t, func(c *Config) { c.Legacy = G1 }, "a", "b", "c")
	l.nodes["b"].stop()
	a := l.nodes["a"]
	listener, err := net.Listen("tcp", netip.AddrPortFrom(l.addr("b"), l.cfg.Port).String())
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.NotFoundHandler()}
	go func() { _ = s.Serve(listener) }()
	defer s.Close()
	ask := func() ([]vote.Result, error) { return a.p.Ask(t.Context(), "b", []string{"c"}) }
	if got, err := ask(); !errors.Is(err, ErrRefused) {
		t.Errorf("it has not reported: %v, %v", got, err)
	}
	rec := edgeHealth{t, G1, string(testKey)}.report("10.77.0.2", "10.77.0.1")
	if status, body := l.put(l.addr("b"), "a", rec); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if got, err := ask(); err != nil || !slices.Equal(got, []vote.Result{{Node: "c", Answer: vote.No}}) {
		t.Errorf("%v, %v", got, err)
	}
	a.shift.Store(int64(l.cfg.LegacyFresh + time.Second))
	if got, err := ask(); !errors.Is(err, ErrRefused) {
		t.Errorf("it reported long ago: %v, %v", got, err)
	}
	a.shift.Store(0)
	_ = s.Close()
	if got, err := ask(); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("it is dead: %v, %v", got, err)
	}
	u := l.as("a")
	delete(u.Addrs, "b")
	a.p.SetUnit(u)
	if len(a.p.spoke) != 0 {
		t.Errorf("it left the unit: %v", a.p.spoke)
	}
}

// Where all are ours nothing is sent for SuperEdge's, and between two of ours but once.
func TestNothingForSuperEdge(t *testing.T) {
	l := newLab(t, nil, "a", "b")
	l.must("a", "b")
	mixed := newLab(t, func(c *Config) { c.Legacy = G2 }, "a", "b")
	mixed.must("a", "b")
	for i, r := range slices.Concat(l.nodes["a"].sent.sent, mixed.nodes["a"].sent.sent) {
		if has := strings.Contains(string(r.body), "sourceIP"); has != (i == 2) {
			t.Errorf("request %d: %s", i, r.body)
		}
	}
}

// Who is on the node asks as SuperEdge's application-grid-wrapper does.
func TestLocal(t *testing.T) {
	for d, want := range map[Dialect]string{
		None: `{"b":{"Normal":true,"Hamc":"","Time":"2026-01-02T03:04:05Z"},"c":{"Normal":false,"Hamc":"","Time":"2026-01-02T03:04:05Z"}}`,
		G1:   `{"b":{"Normal":true,"Hamc":"","Time":"2026-01-02T03:04:05Z"},"c":{"Normal":false,"Hamc":"","Time":"2026-01-02T03:04:05Z"}}`,
		G2:   `{"10.77.0.2":{"normal":true,"time":1767323045},"10.77.0.3":{"time":1767323045}}`,
	} {
		cfg := Default()
		cfg.Legacy = d
		n := &testNode{found: map[string]bool{"b": true, "c": false}}
		now := func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
		p := newPeer(cfg, n, slog.New(slog.DiscardHandler), newMetrics(prometheus.NewRegistry()), now)
		p.SetUnit(Unit{Self: "a", Addrs: map[string][]netip.Addr{"a": {nodeAddr(0)}, "b": {nodeAddr(1)}, "c": {nodeAddr(2)}}})
		s := httptest.NewServer(p.Handler())
		resp, err := http.Get(s.URL + "/localinfo")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		s.Close()
		if strings.TrimSpace(string(body)) != want {
			t.Errorf("%q: %s", d, body)
		}
	}
}

// Addresses that two nodes have are neither's.
func TestUnit(t *testing.T) {
	u := newUnit(Unit{Self: "a", Addrs: map[string][]netip.Addr{
		"a": {netip.MustParseAddr("::ffff:10.0.0.1"), netip.MustParseAddr("fd00::1"), {}}, "b": {netip.MustParseAddr("10.0.0.2")},
		"c": {netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")}, "d": {{}}, "e": nil,
	}})
	got := fmt.Sprint(u.byAddr, u.addr("a"), u.addr("d"), u.addr("e"), u.from(netip.MustParseAddr("10.9.9.9")), u.from(netip.MustParseAddr("fd00::9")))
	if want := "map[10.0.0.1:a 10.0.0.3:c fd00::1:a] 10.0.0.1 invalid IP invalid IP 10.0.0.1 fd00::1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
