package vote

import (
	"errors"
	"fmt"
	"time"
)

// Config is how a node votes. All nodes of a unit have the same.
type Config struct {
	// Self is the node's own name.
	Self string
	// Observers check each node, in a unit that has more; in a smaller one all check all.
	Observers int
	// Reporters hear what a node sees, so that two of them may die within a round.
	Reporters int
	// Every is a round: each observer checks its nodes once, and reports.
	Every time.Duration
	// Fresh is how long what was heard counts: two rounds, and what a busy node is late.
	Fresh time.Duration
	// Suspicion is for how many rounds a node is suspected before it is asked about: a
	// check may be lost.
	Suspicion int
	// AskFor is how long answers of the whole unit are waited for: a check's own timeouts
	// and retries, and the way.
	AskFor time.Duration
	// Renew is how old evidence gets while it matters: while the cloud calls a node lost,
	// the node has no uplink, or is voted dead.
	Renew time.Duration
	// Word is for how long a node that the cloud calls lost is well by what others see alone: after
	// that, one word of its own is wanted. Another machine may have its address.
	Word time.Duration
	// Batch is how many nodes one question is about: SuperEdge's own bound for POST /probe.
	Batch int
	// AtOnce is how many answers are waited for at once, of the unit's nodes to each question: more
	// questions wait for these. One is always asked.
	AtOnce int
	// Share of the unit that may be declared dead within Window, though it is one at least:
	// what kills more at a time is more often a fault of who looks.
	Share  float64
	Window time.Duration
}

// Default has the rounds of SuperEdge, and the numbers of observers of Rapid.
func Default(self string) Config {
	return Config{
		Self: self, Observers: 10, Reporters: 3,
		Every: 10 * time.Second, Fresh: 25 * time.Second, Suspicion: 2,
		AskFor: 5 * time.Second, Renew: time.Minute, Word: 10 * time.Minute, Batch: 100, AtOnce: 1000,
		Share: 0.1, Window: 5 * time.Minute,
	}
}

// Validate reports all that is wrong.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Self != "", "the node's own name is empty")
	check(c.Observers >= 1, "%d observers: a node needs one", c.Observers)
	check(c.Reporters >= 1, "%d reporters: a node needs one", c.Reporters)
	check(c.Every > 0, "a round of %s: must be positive", c.Every)
	check(c.Fresh >= 2*c.Every, "what was heard counts for %s: two rounds are %s", c.Fresh, 2*c.Every)
	check(c.Suspicion >= 1, "suspected for %d rounds: one is the least", c.Suspicion)
	check(c.AskFor > 0 && c.AskFor < c.Every, "answers are waited for %s: must be positive, and less than a round, which is %s", c.AskFor, c.Every)
	check(c.Renew >= c.Every, "evidence is renewed every %s: a round, %s, is the least", c.Renew, c.Every)
	check(c.Word >= c.Renew, "a word of a lost node itself is wanted each %s: %s, in which it is asked once, is the least", c.Word, c.Renew)
	check(c.Batch >= 1, "questions about %d nodes: one is the least", c.Batch)
	check(c.AtOnce >= 1, "%d answers at once: one is the least", c.AtOnce)
	check(c.Share > 0 && c.Share <= 0.5, "a share of %g may be declared dead: more than 0, and half at most", c.Share)
	check(c.Window > 0, "a window of %s: must be positive", c.Window)
	return errors.Join(errs...)
}
