package certs

import (
	"bytes"
	"crypto/x509"
	"slices"
	"time"
)

// Policy says how certificates are to be.
type Policy struct {
	Hosts    []string      // whom they are for: names and addresses
	Lifetime time.Duration // how long each is valid
	// Renew is how long before its end a certificate gets a successor, and Settle how long
	// every API server has had the authority of that in its configuration before it serves.
	Renew, Settle time.Duration
}

// Of a lifetime, how much is left when the next one is made, and how long that waits.
const (
	renewPart  = 3
	settlePart = 30
	settleMost = 5 * time.Minute
)

// PolicyOf is what follows from hosts and a lifetime.
func PolicyOf(hosts []string, lifetime time.Duration) Policy {
	return Policy{Hosts: hosts, Lifetime: lifetime, Renew: lifetime / renewPart, Settle: min(lifetime/settlePart, settleMost)}
}

// Step is what is to be done.
type Step int

// The steps.
const (
	Rest    Step = iota // nothing is to be done
	Begin               // no certificate is good: one that serves at once is written
	Prepare             // the next pair is written, beside the one that serves
	Publish             // the configuration's bundle is written
	Promote             // the next pair becomes the one that serves
)

// String implements fmt.Stringer.
func (s Step) String() string {
	return [...]string{"rest", "begin", "prepare", "publish", "promote"}[s]
}

// Live is what the configuration says: the caBundle of each of its webhooks.
type Live struct {
	Bundles [][]byte
	// Since is when the next pair's authority was first seen in all of them; zero where it
	// is not, or there is none.
	Since time.Time
}

// Holds reports whether the configuration has an authority everywhere.
func (l Live) Holds(ca []byte) bool {
	list := parse(ca)
	return len(list) == 1 && len(l.Bundles) > 0 && !slices.ContainsFunc(l.Bundles, func(b []byte) bool { return !holds(b, list[0]) })
}

// Next says what is to be done next. Each step leaves a state in which API servers
// believe every replica, if they did before.
func (p Policy) Next(s Stored, live Live, now time.Time) Step {
	switch {
	case !s.Now.valid(now) && !s.Next.valid(now):
		return Begin
	case !s.Now.valid(now): // nothing good serves: nobody has to be waited for
		return Promote
	case !same(live.Bundles, s.Bundle(now)): // not where there is no configuration
		return Publish
	case s.Next.valid(now) && p.fits(s.Next): // however long it waited: else none might ever serve
		if live.Holds(s.Next.CA) && !live.Since.IsZero() && now.Sub(live.Since) >= p.Settle {
			return Promote
		}
		return Rest
	case p.due(s.Now, now):
		return Prepare
	}
	return Rest
}

// due reports whether a pair is to be replaced: it ends soon, or is for others.
func (p Policy) due(pair Pair, now time.Time) bool {
	leaf, err := pair.leaf()
	return err != nil || leaf.NotAfter.Sub(now) <= p.Renew || !p.fits(pair)
}

// fits reports whether a pair is for whom it is to be.
func (p Policy) fits(pair Pair) bool {
	leaf, err := pair.leaf()
	return err == nil && isFor(leaf, p.Hosts)
}

// Do carries a step out on what is stored. Of Rest and Publish nothing changes.
func (p Policy) Do(step Step, s Stored, now time.Time) (Stored, error) {
	switch step {
	case Begin, Prepare:
		pair, err := Issue(p.Hosts, p.Lifetime, now)
		if err != nil {
			return s, err
		}
		if s.Next = pair; step == Begin {
			s = s.promote(now)
		}
	case Promote:
		s = s.promote(now)
	case Rest, Publish:
	}
	return s, nil
}

// same reports whether all bundles have these authorities, and no others.
func same(bundles [][]byte, want []byte) bool {
	list := parse(want)
	return !slices.ContainsFunc(bundles, func(b []byte) bool {
		return !slices.EqualFunc(parse(b), list, func(x, y *x509.Certificate) bool { return bytes.Equal(x.Raw, y.Raw) })
	})
}
