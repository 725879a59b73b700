package kube

import (
	"net"
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
)

const (
	// peerRate and peerBurst bound how often the API server is asked about new
	// tokens of one address: a token's next one is a single question.
	peerRate  = 0.2 // a second
	peerBurst = 5
	maxPeers  = 256
)

// peers are the addresses that showed tokens lately.
type peers struct {
	unknown flowcontrol.RateLimiter // all addresses together, of which none was good

	mu sync.Mutex
	by map[string]*peer // by address
}

type peer struct {
	asks flowcontrol.RateLimiter
	seen time.Time
	good time.Time // when it last showed a token that was good; zero: never
}

func newPeers() *peers {
	return &peers{unknown: flowcontrol.NewTokenBucketRateLimiter(unknownRate, unknownBurst), by: map[string]*peer{}}
}

// admit reports whether the API server may be asked about a new token of an address
// (a host and port, as of a request), and whether that address is known for a
// good one: then unknown ones do not delay it.
func (p *peers) admit(remote string, now time.Time) (known, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is := p.of(remote, now)
	known = !is.good.IsZero() && now.Sub(is.good) < knownFor
	return known, is.asks.TryAccept() && (known || p.unknown.TryAccept())
}

// praise keeps that an address showed a good token.
func (p *peers) praise(remote string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of(remote, now).good = now
}

func (p *peers) of(remote string, now time.Time) *peer {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	is := p.by[host]
	if is == nil {
		if len(p.by) >= maxPeers {
			p.forget()
		}
		is = &peer{asks: flowcontrol.NewTokenBucketRateLimiter(peerRate, peerBurst)}
		p.by[host] = is
	}
	is.seen = now
	return is
}

// forget makes room for one: who was never good goes first, and of those who
// was not seen for longest.
func (p *peers) forget() {
	var last string
	var least *peer
	for host, is := range p.by {
		better := least == nil || is.good.IsZero() && !least.good.IsZero()
		if better || is.good.IsZero() == least.good.IsZero() && is.seen.Before(least.seen) {
			last, least = host, is
		}
	}
	delete(p.by, last)
}
