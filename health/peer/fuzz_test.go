package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/health/vote"
)

// What is read of a request is within its bounds, and read the same again.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"from":"a","to":"b","view":"v","epoch":"","ts":1,"nonce":"00000000000000000000000000000000","up":true,"results":{"c":"no"},"targets":[{"name":"c"}]}`))
	f.Add([]byte(`{"From":"a","TO":"b","nonce":"0000000000000000000000000000000g"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := decodeRequest(body)
		if err != nil {
			return
		}
		if !isName(m.From) || !isName(m.To) || len(m.Targets) > mostTargets || len(m.Results.results()) > mostTargets {
			t.Errorf("%+v", m)
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := decodeRequest(text); err != nil || again.Nonce != m.Nonce || again.Sent != m.Sent || len(again.Results) != len(m.Results) {
			t.Errorf("%+v is read as %+v, %v", m, again, err)
		}
	})
}

// What is read of a reply is within its bounds.
func FuzzReply(f *testing.F) {
	f.Add([]byte(`{"from":"b","epoch":"00000000000000000000000000000000","now":1,"leads":true,"dead":["c"],"age":5,"results":{"c":"yes"}}`))
	f.Add([]byte(`{"from":"b","epoch":"00000000000000000000000000000000","age":9223372036854775807}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := decodeReply(body)
		if err != nil {
			return
		}
		v := r.vote()
		if v.Age < 0 || v.Age > mostAge || len(r.Results.results()) > mostTargets {
			t.Errorf("%+v", r)
		}
		for _, a := range r.Results.results() {
			if a.Answer != vote.Yes && a.Answer != vote.No && a.Answer != vote.Abstain {
				t.Errorf("%+v", a)
			}
		}
		r.setVote(v)
		if again := r.vote(); again.Age != v.Age {
			t.Errorf("%s, and then %s", v.Age, again.Age)
		}
	})
}

// SuperEdge's messages, of nobody who has a key, are refused whatever they are.
func FuzzLegacy(f *testing.F) {
	for _, d := range dialects {
		f.Add(edgeHealth{nil, d, "another"}.report("10.77.0.1", "10.77.0.2").body)
	}
	f.Add([]byte(`{"SourceIP":"10.77.0.1","ResultDetail":{"x":{"Time":"9999-12-31T23:59:59+24:00"}},"Hmac":""}`))
	keys := []key{newKey(testKey)}
	f.Fuzz(func(t *testing.T, body []byte) {
		if r, why := decodeLegacy(keys, body); why == "" {
			t.Errorf("it is taken: %+v", r)
		}
		_, _ = decodeLegacyReply(pathProbe, newUnit(Unit{}), body)
	})
}

// answering believes whatever it is told, and looks at nobody.
type answering struct{ t *testing.T }

func (a answering) Report(_ context.Context, r vote.Reported) vote.Reply {
	if r.From != "b" {
		a.t.Errorf("it is told %+v", r)
	}
	return vote.Reply{}
}

func (a answering) Probe(_ context.Context, nodes []string) []vote.Result {
	if len(nodes) != 1 || nodes[0] != "b" {
		a.t.Errorf("it is asked about %q", nodes)
	}
	return nil
}

func (answering) Adopt(context.Context, string, []Member)       {}
func (answering) Elsewhere(context.Context, string, netip.Addr) {}
func (answering) Local() map[string]bool                        { return nil }

// Whatever is sent, signed or not, something is answered, and nothing is believed that is not
// of the unit.
func FuzzServe(f *testing.F) {
	f.Add(true, false, []byte(`{"from":"b","to":"a","view":"v","epoch":"","ts":1,"nonce":"00000000000000000000000000000000"}`))
	f.Add(false, true, []byte(`{"targets":[{"ip":"10.77.0.2","protocol":"icmp"}]}`))
	f.Add(true, true, []byte(`{"from":"b","to":"a","nonce":"00000000000000000000000000000000","targets":[{"name":"b"}]}`))
	f.Fuzz(func(t *testing.T, sign, ask bool, body []byte) {
		cfg := Default()
		cfg.Legacy = G1
		p := newPeer(cfg, answering{t}, slog.New(slog.DiscardHandler), newMetrics(prometheus.NewRegistry()), time.Now)
		p.SetUnit(Unit{Self: "a", View: "v", Addrs: map[string][]netip.Addr{"a": {nodeAddr(0)}, "b": {nodeAddr(1)}}})
		if err := p.SetKeys(testKey); err != nil {
			t.Fatal(err)
		}
		method, path := http.MethodPut, pathResult
		if ask {
			method, path = http.MethodPost, pathProbe
		}
		r := httptest.NewRequest(method, path, bytes.NewReader(body))
		r.RemoteAddr = netip.AddrPortFrom(nodeAddr(1), 9).String()
		if sign {
			r.Header.Set(header, recorded{method, path, "", body}.sign(testKey).signature)
		}
		w := httptest.NewRecorder()
		p.Handler().ServeHTTP(w, r)
		if w.Code < 200 || w.Code > 503 {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	})
}
