package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/health/vote"
)

const (
	pathResult = "/result"
	pathProbe  = "/probe"
)

// Report tells another node what this one sees: From is this node, whatever it says. An error
// says that it did not arrive; ErrNoKey, ErrNoUnit, ErrNotSent and ErrView say nothing of the other node.
func (p *Peer) Report(ctx context.Context, to string, r vote.Reported) (vote.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.ReportTimeout)
	defer cancel()
	m := request{Up: r.Up, Hears: r.Hears, Holds: r.Holds, Results: newAnswers(r.Results)}
	if len(m.Results) > mostTargets {
		return vote.Reply{}, fmt.Errorf("report to %s: about %d nodes, and %d are the most", to, len(m.Results), mostTargets)
	}
	got, err := p.send(ctx, http.MethodPut, pathResult, to, m)
	if err != nil {
		return vote.Reply{}, fmt.Errorf("report to %s: %w", to, err)
	}
	if len(got.Members) > 0 {
		p.node.Adopt(ctx, to, got.Members)
	}
	return got.vote(), nil
}

// Ask asks another node about some, 100 at most. Errors are as those of Report. A thousand may be
// asked at once.
func (p *Peer) Ask(ctx context.Context, to string, nodes []string) ([]vote.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.AskTimeout)
	defer cancel()
	if len(nodes) > mostTargets {
		return nil, fmt.Errorf("ask %s: about %d nodes, and %d are the most", to, len(nodes), mostTargets)
	}
	m := request{Targets: make([]requestTarget, 0, len(nodes))}
	u := p.unit.Load()
	for _, name := range nodes {
		t := requestTarget{Name: name}
		if u != nil {
			t.UID, t.Addr = u.UIDs[name], u.addr(name)
		}
		m.Targets = append(m.Targets, t)
	}
	got, err := p.send(ctx, http.MethodPost, pathProbe, to, m)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", to, err)
	}
	return got.Results.results(), nil
}

// send has a request arrive, and counts what came of it.
func (p *Peer) send(ctx context.Context, method, path, to string, m request) (got reply, err error) {
	got, err = p.exchange(ctx, method, path, to, m)
	result := "ok"
	switch {
	case errors.Is(err, ErrView):
		result = "view"
	case errors.Is(err, ErrRefused):
		result = "refused"
	case err != nil:
		result = "failed"
	}
	p.metrics.sent.WithLabelValues(path, result).Inc()
	return got, err
}

// mostCuts is how often a request is sent again whose connection was cut before its reply came: the
// other end makes room so, where somebody floods it from this node's address.
const mostCuts = 3

// isCut reports whether a connection was made, and ended before the reply had come.
func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) ||
		strings.Contains(err.Error(), "server closed idle connection") // net/http's own, before it has sent anything
}

// room waits for room for a request, for half of its time: with less left hardly anybody answers. late
// says that it took so long that no answer says nothing of the other node, as of one that has to look
// for a dead node first.
func (p *Peer) room(ctx context.Context) (late bool, err error) {
	begin, wait := time.Now(), time.Duration(0)
	if end, ok := ctx.Deadline(); ok {
		wait = end.Sub(begin)
	}
	none := time.NewTimer(wait / 2)
	defer none.Stop()
	select {
	case p.away <- struct{}{}:
		return time.Since(begin) > wait/20, nil
	case <-none.C:
	case <-ctx.Done():
	}
	return false, ErrNotSent
}

// exchange sends a request, and once more if the other one's clock was not known.
func (p *Peer) exchange(ctx context.Context, method, path, to string, m request) (got reply, err error) {
	u, keys := p.unit.Load(), *p.keys.Load()
	switch {
	case len(keys) == 0:
		return got, ErrNoKey
	case u == nil || to == u.Self || !u.addr(to).IsValid():
		return got, ErrNoUnit
	}
	late, err := p.room(ctx)
	if err != nil {
		return got, err
	}
	defer func() {
		if <-p.away; late && err != nil && ctx.Err() != nil {
			err = ErrNotSent
		}
	}()
	m.From, m.To, m.View, m.UID, m.ToUID = u.Self, to, u.View, u.UIDs[u.Self], u.UIDs[to]
	if path == pathResult && !m.Up {
		m.Where = u.where
	}
	for try, cuts := 0, 0; ; {
		got, err = p.once(ctx, method, path, u, keys[0], m)
		switch {
		case err != nil && isCut(err) && cuts < mostCuts:
			cuts++
		case err != nil:
			return got, err
		case got.Refused == "":
			return got, nil
		case got.Refused == clockOff && try == 0: // by now it is known
			try++
		case got.Refused == viewOff:
			return got, ErrView
		default:
			return got, fmt.Errorf("%w: %s", ErrRefused, got.Refused)
		}
	}
}

// once sends a request, and returns the reply that is its own.
func (p *Peer) once(ctx context.Context, method, path string, u *unit, k key, m request) (got reply, err error) {
	m.Nonce = random()
	p.mu.Lock()
	other := p.clocks[m.To]
	p.mu.Unlock()
	m.Epoch, m.Sent = other.epoch, other.now(p.now())
	body, err := p.encode(path, u, k, m)
	if err != nil {
		return got, err
	}
	to := u.addr(m.To)
	url := "http://" + netip.AddrPortFrom(to, p.cfg.Port).String() + path
	req, err := http.NewRequestWithContext(context.WithValue(ctx, ownAddress{}, u.from(to)), method, url, bytes.NewReader(body))
	if err != nil {
		return got, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(header, fmt.Sprintf("%x", k.ofRequest(method, path, body)))
	resp, err := p.client.Do(req)
	if err != nil {
		return got, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, int64(mostReply(len(u.Addrs)))))
	if err != nil {
		return got, err
	}
	return p.read(path, u, k, m, resp, text)
}

// mostReply is what a reply may have: the names of a unit's dead, its members, and its JSON.
func mostReply(nodes int) int { return 64<<10 + mostList + nodes*(mostName+3) }

// encode makes a request's body, with what a SuperEdge node reads of it beside the rest.
func (p *Peer) encode(path string, u *unit, k key, m request) ([]byte, error) {
	switch {
	case p.cfg.Legacy == None, p.isOurs(m.To): // who records it has nothing to send as SuperEdge's
		return json.Marshal(m)
	case path == pathProbe:
		for i, t := range m.Targets {
			if to := u.addr(t.Name); to.IsValid() {
				m.Targets[i].IP, m.Targets[i].Port, m.Targets[i].Protocol = to.String(), int32(p.cfg.KubeletPort), "tcp"
			}
		}
		return json.Marshal(m)
	}
	return encodeForBoth(p.cfg.Legacy, u, k, m)
}

// read takes a reply for what it is: signed for this request, by who was asked.
func (p *Peer) read(path string, u *unit, k key, m request, resp *http.Response, text []byte) (got reply, err error) {
	given := resp.Header.Get(header)
	if given == "" && resp.StatusCode == http.StatusOK && p.cfg.Legacy != None && !p.isOurs(m.To) {
		return decodeLegacyReply(path, u, text)
	}
	if given == "" && resp.StatusCode == http.StatusNotFound && path == pathProbe && p.cfg.Legacy != None && !p.isOurs(m.To) {
		return p.spokenOf(m)
	}
	of := func(k key) []byte { return k.ofReply(path, m.Nonce, resp.StatusCode, text) }
	switch _, ok := signed([]key{k}, given, of); {
	case given == "":
		return got, fmt.Errorf("%w: %s: %.100q", ErrRefused, resp.Status, text)
	case !ok:
		return got, errors.New("the reply is not signed with the key of its request, or is another one's")
	}
	if got, err = decodeReply(text); err != nil {
		return got, fmt.Errorf("what it replies: %w", err)
	}
	if got.From != m.To {
		return got, fmt.Errorf("%.100q answers there: do two nodes have one address?", got.From)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unit.Load().has(m.To) {
		p.clocks[m.To] = theirs{got.Epoch, got.Now, p.now()}
		p.sender(m.To).signed = true
	}
	return got, nil
}

// ownAddress is the key of a request's context for the address that it is sent from.
type ownAddress struct{}

// newClient makes one that has a connection for each request, as these are rare, and one
// that is kept open may have ended with the other node.
func (p *Peer) newClient() *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 8 << 10,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				return dial(ctx, network, address, !p.cfg.NAT)
			},
		},
	}
}

// dial dials from the address at which this node is known, where it has it itself: of several
// the kernel might choose another one, and the other end refuse it.
func dial(ctx context.Context, network, address string, known bool) (net.Conn, error) {
	if own, _ := ctx.Value(ownAddress{}).(netip.Addr); known && own.IsValid() {
		d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(own, 0)), Control: noPortYet}
		conn, err := d.DialContext(ctx, network, address)
		if !errors.Is(err, unix.EADDRNOTAVAIL) {
			return conn, err
		}
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// noPortYet lets the kernel choose the port when it connects, so that many connections to
// different nodes share one (ip(7), IP_BIND_ADDRESS_NO_PORT).
func noPortYet(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1) // it saves ports only
	})
}
