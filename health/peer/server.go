package peer

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"

	"github.com/gridmesh/gridmesh/health/vote"
)

// Handler is what Run serves.
func (p *Peer) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT "+pathResult, p.serve(p.result, p.legacyResult))
	mux.HandleFunc("POST "+pathProbe, p.serve(p.probe, p.legacyProbe))
	mux.HandleFunc("GET /localinfo", p.serve(nil, p.local))
	return mux
}

// call is a request that is served.
type call struct {
	*http.Request
	u     *unit
	from  netip.Addr // who is at the other end of the connection
	spent bool       // of what its source may ask for
}

// onNode reports whether somebody on this node calls.
func (c *call) onNode() bool { return c.from.IsLoopback() }

// serve hands what is signed to one, when it is verified, and all else to the other. What is not
// signed spends what its source may ask for, and what is forged does once that is known: anybody may
// send from a node's address, by a node port of it, and is not to have the node itself refused.
func (p *Peer) serve(ours func(c *call, m request) (reply, refusal), others func(w http.ResponseWriter, c *call)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		addr, _ := netip.ParseAddrPort(r.RemoteAddr)
		c := &call{Request: r, u: p.unit.Load(), from: addr.Addr().Unmap()}
		signs := ours != nil && r.Header.Get(header) != ""
		switch {
		case c.u == nil:
			p.deny(w, c, noUnit)
		case signs && (p.cfg.NAT || c.u.isNode(c.from)):
			p.signed(w, c, ours)
		case !p.spend(c.u, c.from):
			p.deny(w, c, rate)
		case signs: // of a stranger: it is told so, where it is signed
			c.spent = true
			p.signed(w, c, ours)
		default:
			others(w, c)
		}
	}
}

// deny refuses without a signature: who asks was not verified.
func (p *Peer) deny(w http.ResponseWriter, c *call, why refusal) {
	p.refuse(why, c.u, nobody, c.from)
	w.Header().Set("Connection", "close")
	http.Error(w, fmt.Sprintf("refused: %s. %s", why, refusals[why].cure), refusals[why].status)
}

// mostRequest is what a request of ours may have: a hundred names with an answer each, and,
// where SuperEdge's nodes are to read it, as many addresses.
const mostRequest = 64 << 10

// signed serves what is signed, and signs what it replies.
func (p *Peer) signed(w http.ResponseWriter, c *call, ours func(c *call, m request) (reply, refusal)) {
	keys := *p.keys.Load()
	if len(keys) == 0 {
		p.deny(w, c, noKey)
		return
	}
	body, by, why := p.verify(w, c, keys)
	if why != "" {
		if !c.spent && !p.spend(c.u, c.from) {
			why = rate
		}
		p.deny(w, c, why)
		return
	}
	m, err := decodeRequest(body)
	if err != nil {
		p.deny(w, c, malformed)
		return
	}
	var out reply
	if why = p.admit(c, m); why == "" {
		out, why = ours(c, m)
	}
	status := http.StatusOK
	if why != "" {
		p.refuse(why, c.u, m.From, c.from)
		out, status = reply{Refused: why}, refusals[why].status
	} else {
		p.metrics.received.WithLabelValues(c.URL.Path, "gridmesh").Inc()
	}
	out.From, out.Epoch, out.Now = c.u.Self, p.clock.epoch, p.clock.at(p.now())
	text, err := out.encode()
	if err != nil { // of strings and numbers
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(header, fmt.Sprintf("%x", by.ofReply(c.URL.Path, m.Nonce, status, text)))
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// verify reads what is signed, and by which key it is.
func (p *Peer) verify(w http.ResponseWriter, c *call, keys []key) (body []byte, by key, why refusal) {
	if body, why = readBody(w, c.Request, mostRequest); why != "" {
		return nil, by, why
	}
	turn := p.trusted
	if p.doubts(c.u, c.from) {
		turn = p.doubted
	}
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-c.Context().Done(): // nobody waits for the answer
		return nil, by, malformed
	}
	by, ok := signed(keys, c.Header.Get(header), func(k key) []byte { return k.ofRequest(c.Method, c.URL.Path, body) })
	if !ok {
		return nil, by, signature
	}
	return body, by, ""
}

// admit reports why what is signed does not count.
func (p *Peer) admit(c *call, m request) refusal {
	switch {
	case m.To != c.u.Self:
		return receiver
	case !c.u.has(m.From) || m.From == c.u.Self:
		return stranger
	case !p.cfg.NAT && !c.u.at(m.From, c.from):
		if !c.onNode() && !c.u.isNode(c.from) && p.take(m) == "" && c.u.understands(m) {
			p.node.Elsewhere(c.Context(), m.From, c.from)
		}
		return address
	}
	if why := p.take(m); why != "" {
		return why
	}
	if !c.u.understands(m) {
		return viewOff
	}
	return ""
}

func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, refusal) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, tooLarge
	case err != nil:
		return nil, malformed
	}
	return body, ""
}

// ofUnit are the results about nodes of the unit, and not about who says it.
func ofUnit(u *unit, from string, results []vote.Result) []vote.Result {
	list := make([]vote.Result, 0, len(results))
	for _, r := range results {
		if u.has(r.Node) && r.Node != from {
			list = append(list, r)
		}
	}
	return list
}
