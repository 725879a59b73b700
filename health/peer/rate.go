package peer

import (
	"net/netip"
	"time"
)

// How many requests are looked at that nobody signed, a second and at once: of each node's
// addresses, and of all others together. What a node signs is bounded by its room (replay.go).
const (
	ratePerSource  = 20
	burstPerSource = 100
)

// Sources that are no nodes, whose names are not empty and have no space.
const (
	nobody = ""         // who is at no node's address
	onNode = "the node" // who is on this node
)

// source is what is left to who is at an address. The caller holds the lock.
func (p *Peer) source(u *unit, from netip.Addr) *bucket {
	name := u.byAddr[from]
	if name == nobody && from.IsLoopback() {
		name = onNode
	}
	perSecond, burst := float64(ratePerSource), float64(burstPerSource)
	if name == nobody && p.cfg.NAT { // the whole unit may be behind it
		perSecond, burst = perSecond+float64(len(u.Addrs)), burst+float64(len(u.Addrs))
	}
	b := p.sources[name]
	if b == nil {
		b = &bucket{}
		p.sources[name] = b
	}
	b.fill(p.now(), perSecond, burst)
	return b
}

// spend takes one of what a source may ask for, of whom it is not known who it is.
func (p *Peer) spend(u *unit, from netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.source(u, from).spend()
}

// doubts reports whether a source has spent all. Its signatures are looked at still, for the node
// that is there may be among them, but one at a time of all that are doubted: forged ones, of
// 64 KiB each, take no more than one core, and nobody else waits for them.
func (p *Peer) doubts(u *unit, from netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.source(u, from).left < 1
}

// bucket is what is left to a source.
type bucket struct {
	left float64
	at   time.Time
}

// fill adds what came since, of rate a second and as many at once as burst.
func (b *bucket) fill(now time.Time, rate, burst float64) {
	if b.at.IsZero() {
		b.left = burst
	}
	b.left = min(burst, b.left+rate*max(0, now.Sub(b.at).Seconds()))
	b.at = now
}

// spend takes one, where one is left.
func (b *bucket) spend() bool {
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
