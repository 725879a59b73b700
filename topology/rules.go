package topology

import (
	"cmp"
	"slices"
)

// rules is the decision. They are applied from top to bottom, to the endpoints
// of each frontend and of each name; what is left are the tiers. A new rule is
// a file, rule_*.go, and a line here.
var rules = []*rule{
	malformedKeys,
	duplicatesAnywhere,
	localPolicy,
	keyTiers,
	duplicates,
	terminating,
	nearerToo,
	trafficHints,
	bound,
	votedDead,
	nearestTier,
}

// rule narrows the endpoints of a question, or puts them into tiers.
type rule struct {
	name string
	// reason is what is said of an endpoint that the rule leaves out.
	reason string
	// only is the kind of question that the rule is for; zero means every kind.
	only scope
	// cure is what helps where the rule left out the last endpoint; in it NAMESPACE
	// is the Service's, and ADDRESS the endpoint's. None for a rule that always
	// leaves one.
	cure string
	// help is the cure of one endpoint, where it depends on the reason; nil, or "",
	// for cure.
	help func(q *question, c candidate) string
	// nodeLabels are labels of nodes that the rule reads, of the endpoints' and of
	// this one, besides the topology keys: when one changes, the Service is
	// evaluated again.
	nodeLabels []string
	// when reports whether the rule applies; nil means always.
	when func(q *question) bool

	// A rule has one of these two. keep reports whether an endpoint stays.
	keep func(q *question, c candidate) bool
	// arrange makes new tiers of the ones so far; it leaves out by q.leaveOut.
	arrange func(q *question, tiers []tier) []tier

	// detail is the reason with names and values in it, for people; nil means
	// that reason says it all.
	detail func(q *question, c candidate) string
}

// because is the reason for leaving c out, for people.
func (r *rule) because(q *question, c candidate) string {
	if r.detail == nil {
		return r.reason
	}
	return r.detail(q, c)
}

// scope is the kind of a question.
type scope uint8

const (
	forTraffic scope = iota + 1 // where connections to a frontend go
	forNames                    // what a DNS name stands for
)

// question is the endpoints of one frontend, or behind the names of one
// Service, on their way through the rules.
type question struct {
	*evaluation
	scope scope
	keys  Keys
	local bool // internalTrafficPolicy: Local
	rule  *rule
	// most is how many endpoints there may be, 0 for no bound; bounded says that
	// there were more.
	most    int
	bounded bool
	udp     bool // most is what Envoy holds of a UDP port
	// leave is told what is left out; nil on the hot path.
	leave func(c candidate, by *rule)
}

// candidate is an endpoint that a question is about.
type candidate struct {
	*Endpoint
	slice *Slice
	port  uint16 // that a frontend leads to; 0 for names. Rules ask whether it is another's alone: alike.go
	pod   int32  // place in ServiceView.Pods; 0 for traffic
	dead  bool   // others come before it: rule_dead.go
}

// tier is candidates of one rank.
type tier struct {
	key  string
	rank Rank
	list []candidate
}

// cures is what helps c, for people.
func (r *rule) cures(q *question, c candidate) string {
	if r.help == nil {
		return r.cure
	}
	return cmp.Or(r.help(q, c), r.cure)
}

// tiers applies the rules. list is theirs to change.
func (q *question) tiers(list []candidate) []tier {
	if len(list) == 0 {
		return nil
	}
	tiers := []tier{{rank: RankNone, list: list}}
	for _, r := range q.rules {
		if r.only != 0 && r.only != q.scope || r.when != nil && !r.when(q) {
			continue
		}
		q.rule = r
		if r.arrange != nil {
			tiers = r.arrange(q, tiers)
		} else {
			for i := range tiers {
				tiers[i].list = q.filter(tiers[i].list, r.keep)
			}
		}
		tiers = slices.DeleteFunc(tiers, func(t tier) bool { return len(t.list) == 0 })
	}
	return tiers
}

// filter leaves out, in place, what keep does not report.
func (q *question) filter(list []candidate, keep func(q *question, c candidate) bool) []candidate {
	kept := list[:0]
	for _, c := range list {
		if keep(q, c) {
			kept = append(kept, c)
		} else {
			q.leaveOut(c)
		}
	}
	return kept
}

// leaveOut notes that the present rule leaves c out.
func (q *question) leaveOut(c candidate) {
	if q.leave != nil {
		q.leave(c, q.rule)
	}
}

// onThisNode reports whether the endpoint is on the node that asks.
func onThisNode(q *question, c candidate) bool { return c.Node == q.vp.Name }
