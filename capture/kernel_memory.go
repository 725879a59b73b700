package capture

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// How often memories are looked at, which has all rules of the table told, and for how
// long one counts as full that found no room for a client.
const (
	fullEvery = 30 * time.Second
	fullFor   = 10 * time.Minute
)

// fullness says which memories are full, by what their chains counted.
type fullness struct {
	looked  time.Time
	counted map[plan.Pick]uint32
	last    map[plan.Memory]time.Time
}

// note takes what chains have counted, by a list that may be torn, and returns the memories that are full.
func (f *fullness) note(counted map[plan.Pick]uint32, torn bool, now time.Time) map[plan.Memory]bool {
	if f.last == nil {
		f.last = map[plan.Memory]time.Time{}
	}
	if torn { // it may lack chains, and some rules of those it has
		for p, n := range f.counted {
			counted[p] = max(counted[p], n)
		}
	}
	for p, n := range counted {
		if m, has := p.Memory(); has && n > 0 && n != f.counted[p] {
			f.last[m] = now
		}
	}
	f.counted = counted
	full := map[plan.Memory]bool{}
	for m, at := range f.last {
		if now.Sub(at) >= fullFor {
			delete(f.last, m)
			continue
		}
		full[m] = true
	}
	return full
}

// lookAtMemories tells of Services whose clients are not remembered.
func (c *Capture) lookAtMemories(now time.Time) error {
	k := c.kernel
	c.foundForgotten(k.planner.Forgotten())
	if now.Sub(k.full.looked) < fullEvery {
		return nil
	}
	k.full.looked = now
	counted, err := k.table.counted()
	torn := errors.Is(err, dump.ErrTorn)
	if err != nil && !torn {
		return fmt.Errorf("which clients are remembered: %w", err)
	}
	c.foundFull(k.planner.Sharing(k.full.note(counted, torn, now)))
	return nil
}

// counted is how many clients found no room, by chain; of a torn list, what was told, beside dump.ErrTorn.
func (t *kernelTable) counted() (map[plan.Pick]uint32, error) {
	counted := map[plan.Pick]uint32{}
	remembers := func(p plan.Pick) bool { return p.Sticky > 0 }
	if !slices.ContainsFunc(t.picks(), remembers) {
		return counted, nil
	}
	chains, err := t.conn.RulesOf(t.nft)
	if err != nil && !errors.Is(err, dump.ErrTorn) {
		return nil, err
	}
	for name, list := range chains {
		p, ok := rules.ParsePick(name)
		if !ok || !remembers(p) {
			continue
		}
		for _, e := range slices.Concat(list...) {
			if e.Name == "counter" {
				counted[p] += e.Number(unix.NFTA_COUNTER_PACKETS)
			}
		}
	}
	return counted, err
}

// foundForgotten takes the namespaces for some of whose Services there is no memory.
func (c *Capture) foundForgotten(namespaces []string) {
	text := ""
	if len(namespaces) > 0 {
		text = fmt.Sprintf("Services of namespace %s want sessionAffinity beyond what this node remembers clients for: some of theirs keep no client at its endpoint, and nobody else's suffer; take the affinity from those that need none", of(namespaces))
	}
	c.own.set(AffinityShare, text)
}

// foundFull takes the Services whose memory is full.
func (c *Capture) foundFull(services []string) {
	text := ""
	if len(services) > 0 {
		text = fmt.Sprintf("more clients dial Service %s than this node remembers for one with sessionAffinity: further ones go to any of its endpoints, and nobody else's suffer; see who they are (forged addresses count, too), lower its timeoutSeconds, or take the affinity away", of(services))
	}
	c.own.set(AffinityFull, text)
}

// of names the first: a text that follows each of them would be told anew all the time.
func of(sorted []string) string {
	if len(sorted) > 1 {
		return sorted[0] + " (and others)"
	}
	return sorted[0]
}
