package peer_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/health/peer"
)

// SuperEdge's own numbers.
const (
	theirCheck   = 10 * time.Second
	theirReport  = 60 * time.Second
	theirVote    = 10 * time.Second
	theirTimeout = 60 * time.Second // of what was reported
	theirPort    = 51005
)

// edgeNode is a small twin of SuperEdge's edge-health: it checks all nodes, tells each of them
// each minute, and counts votes by itself.
type edgeNode struct {
	lan     *lan
	dialect peer.Dialect
	ip      netip.Addr
	all     []netip.Addr

	mu      sync.Mutex
	key     string
	heard   map[string]report // by checker
	unwell  map[string]bool   // annotated nodeunhealth by this one
	refused int
	gaps    map[string]time.Duration // the longest between two reports, by checker
}

type report struct {
	at   time.Time
	well map[string]bool
}

func newEdgeNode(n *lan, d peer.Dialect, ip netip.Addr, all []netip.Addr, key string) *edgeNode {
	return &edgeNode{lan: n, dialect: d, ip: ip, all: all, key: key, heard: map[string]report{}, unwell: map[string]bool{}, gaps: map[string]time.Duration{}}
}

// Up to v0.7.
type (
	wireG1 struct {
		SourceIP     string
		ResultDetail map[string]wireDetailG1
		Hmac         string
	}
	wireDetailG1 struct {
		Normal bool
		Hamc   string
		Time   time.Time
	}
)

// From v0.8 on.
type (
	wireG2 struct {
		SourceIP     string                  `json:"sourceIP,omitempty"`
		ResultDetail map[string]wireDetailG2 `json:"resultDetail,omitempty"`
		Hmac         string                  `json:"hmac,omitempty"`
	}
	wireDetailG2 struct {
		Normal bool   `json:"normal,omitempty"`
		Hmac   string `json:"hmac,omitempty"`
		Time   int64  `json:"time,omitempty"`
	}
)

// mac is over the JSON of the address and of the results.
func mac(key, source string, details any) string {
	first, _ := json.Marshal(source)
	second, _ := json.Marshal(details)
	h := hmac.New(sha256.New, []byte(key))
	_, _ = io.WriteString(h, string(first)+string(second))
	return fmt.Sprintf("%x", h.Sum(nil))
}

// say is a report of this node.
func (e *edgeNode) say() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	own := e.heard[e.ip.String()]
	var body []byte
	if e.dialect == peer.G1 {
		m := wireG1{SourceIP: e.ip.String(), ResultDetail: map[string]wireDetailG1{}}
		for ip, well := range own.well {
			m.ResultDetail[ip] = wireDetailG1{Normal: well}
		}
		m.Hmac = mac(e.key, m.SourceIP, m.ResultDetail)
		body, _ = json.Marshal(m)
	} else {
		m := wireG2{SourceIP: e.ip.String(), ResultDetail: map[string]wireDetailG2{}}
		for ip, well := range own.well {
			m.ResultDetail[ip] = wireDetailG2{Normal: well, Time: own.at.Unix()}
		}
		m.Hmac = mac(e.key, m.SourceIP, m.ResultDetail)
		body, _ = json.Marshal(m)
	}
	return body
}

// ServeHTTP implements http.Handler: /result, and from v0.8 on /probe.
func (e *edgeNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch {
	case r.URL.Path == "/result":
		if !e.take(body) {
			w.WriteHeader(http.StatusForbidden)
		}
	case r.URL.Path == "/probe" && e.dialect == peer.G2:
		var m map[string]any
		_ = json.Unmarshal(body, &m)
		targets, _ := m["targets"].([]any)
		for _, t := range targets {
			of := t.(map[string]any)
			to, err := netip.ParseAddr(fmt.Sprint(of["ip"]))
			of["normal"] = err == nil && of["protocol"] == "tcp" && e.lan.reaches(e.ip, to)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"targets": targets, "sourceNodeIP": e.ip.String()})
	default:
		http.NotFound(w, r)
	}
}

// take notes a report under the address that it names, if its signature is right.
func (e *edgeNode) take(body []byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	well := map[string]bool{}
	var source, given, want string
	if e.dialect == peer.G1 {
		var m wireG1
		if json.NewDecoder(bytes.NewReader(body)).Decode(&m) != nil {
			return false
		}
		source, given, want = m.SourceIP, m.Hmac, mac(e.key, m.SourceIP, m.ResultDetail)
		for ip, d := range m.ResultDetail {
			well[ip] = d.Normal
		}
	} else {
		var m wireG2
		if json.NewDecoder(bytes.NewReader(body)).Decode(&m) != nil {
			return false
		}
		source, given, want = m.SourceIP, m.Hmac, mac(e.key, m.SourceIP, m.ResultDetail)
		for ip, d := range m.ResultDetail {
			well[ip] = d.Normal
		}
	}
	if given != want {
		e.refused++
		return false
	}
	now := time.Now()
	if last, ok := e.heard[source]; ok {
		e.gaps[source] = max(e.gaps[source], now.Sub(last.at))
	}
	e.heard[source] = report{now, well}
	return true
}

// vote counts, and annotates where half of all nodes and half a vote more agree.
func (e *edgeNode) vote() {
	e.mu.Lock()
	defer e.mu.Unlock()
	yes, no, voters := map[string]int{}, map[string]int{}, 0
	for checker, r := range e.heard {
		if checker != e.ip.String() && time.Since(r.at) > theirTimeout {
			continue
		}
		voters++
		for ip, well := range r.well {
			if well {
				yes[ip]++
			} else {
				no[ip]++
			}
		}
	}
	if voters == 1 {
		return
	}
	need := (float64(len(e.all)) + 1) / 2
	for _, ip := range e.all {
		if float64(yes[ip.String()]) >= need {
			delete(e.unwell, ip.String())
		}
		if float64(no[ip.String()]) >= need {
			e.unwell[ip.String()] = true
		}
	}
}

// check looks at all nodes, itself among them.
func (e *edgeNode) check() {
	well := map[string]bool{}
	for _, ip := range e.all {
		well[ip.String()] = ip == e.ip || e.lan.reaches(e.ip, ip)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard[e.ip.String()] = report{time.Now(), well}
}

// tell sends a report to all others at once.
func (e *edgeNode) tell(ctx context.Context) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: e.lan.dialFrom(e.ip)}}
	body := e.say()
	var all sync.WaitGroup
	for _, ip := range e.all {
		if ip == e.ip {
			continue
		}
		all.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodPut, fmt.Sprintf("http://%s:%d/result", ip, theirPort), bytes.NewReader(body))
			if err != nil {
				return
			}
			if resp, err := client.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
	all.Wait()
}

// run is the node until ctx ends; each begins at another time.
func (e *edgeNode) run(ctx context.Context, r *rand.Rand) {
	s := &http.Server{Handler: e, ReadHeaderTimeout: time.Minute}
	l := e.lan.listen(netip.AddrPortFrom(e.ip, theirPort))
	var all sync.WaitGroup
	all.Go(func() { _ = s.Serve(l) })
	every := func(d time.Duration, do func()) {
		begin := time.Duration(r.Int64N(int64(d)))
		all.Go(func() {
			for wait := begin; ; wait = d {
				select {
				case <-time.After(wait):
					do()
				case <-ctx.Done():
					return
				}
			}
		})
	}
	e.check()
	every(theirCheck, e.check)
	every(theirReport, func() { e.tell(ctx) })
	every(theirVote, e.vote)
	<-ctx.Done()
	_ = s.Close()
	all.Wait()
}

// state is whom it calls unwell, and whom it hears.
func (e *edgeNode) state() (unwell map[string]bool, heard string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	unwell = map[string]bool{}
	for ip := range e.unwell {
		unwell[ip] = true
	}
	var list []string
	for _, ip := range e.all {
		if r, ok := e.heard[ip.String()]; ok && time.Since(r.at) <= theirTimeout+time.Second {
			list = append(list, ip.String())
		}
	}
	return unwell, strings.Join(list, " ")
}
