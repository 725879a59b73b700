package vote

import (
	"maps"
	"slices"
	"time"
)

// Known is what a node knows of its unit, for people to look at: a copy, but for the View,
// which never changes.
type Known struct {
	View  *View
	Up    bool   // it reaches the cloud
	Doubt string // why it does not trust what it sees; "" where it does
	// Hears: more than half of the unit report to it, and have for some rounds. Leads: it
	// asks the unit. Holds: it has the unit's Lease, until Until.
	Hears, Leads, Holds bool
	Until               time.Time
	// Leader is who leads, if not this node, as it was known at Led; "" for nobody.
	Leader   string
	Led      time.Time
	Dead     []string             // Machine.Dead
	Suspects map[string]int       // for how many rounds since it was asked about last: of who leads alone
	Doubted  map[string]time.Time // since when nobody vouches for it: of who leads alone
	Heard    map[string]Heard     // the last report of each node, this one's own among them
}

// Heard is the last report of a node.
type Heard struct {
	At               time.Time
	Up, Hears, Holds bool     // as in Reported
	Results          []Result // of those that the node is to check, sorted
}

// Known says what this node knows.
func (m *Machine) Known(now time.Time) Known {
	k := Known{
		View: m.view, Up: m.up, Doubt: m.doubt(), Hears: m.hears(now), Leads: m.leading && m.leads(now), Holds: m.holds(now), Until: m.until,
		Dead: m.Dead(now), Suspects: maps.Clone(m.suspects), Doubted: maps.Clone(m.doubted), Heard: make(map[string]Heard, len(m.heard)),
	}
	if m.leader != "" && now.Sub(m.led) <= m.cfg.Fresh {
		k.Leader, k.Led = m.leader, m.led
	}
	for name, h := range m.heard {
		k.Heard[name] = Heard{h.at, h.up, h.hears, m.holders[name], slices.Clone(h.results)}
	}
	return k
}
