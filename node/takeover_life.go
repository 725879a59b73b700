package node

import (
	"cmp"
	"time"

	"github.com/gridmesh/gridmesh/capture/kubeproxy"
	"github.com/gridmesh/gridmesh/node/report"
)

// proxyQuiet is for how long there has to be no sign of a kube-proxy before what it left is
// removed, and for how long its ports have to be free before the agent takes them: one that
// is restarted is back by then, and one that runs tries for its ports every 5 s.
const proxyQuiet = 15 * time.Second

// whoWrote is why kube-proxy counts as running where its rules alone show it.
const whoWrote = report.ByRulesAlone

// proxyLife is what is known of whether a kube-proxy runs, from look to look. It knows no
// clock, and has one owner.
type proxyLife struct {
	written string    // kubeproxy.Rules.Written of the last look that saw all
	blind   bool      // there was none of these yet
	free    time.Time // since when nobody else has its ports; zero where somebody has
	quiet   time.Time // since when there is no sign of it; zero where there is
	shown   bool      // there was a sign of who wrote the rules, not long ago
	wrote   bool      // somebody wrote them who gives no sign
}

// compare is before take: the first look that sees all is what others are compared with.
func (l *proxyLife) compare(written string, whole bool) {
	if l.blind && whole {
		l.written, l.blind = written, false
	}
}

// take takes what a look showed where rules are there, and says why kube-proxy counts as
// running; "" where it does not. Who writes and gives no sign, for the agent has his ports and
// nobody sees his process, counts until the rules are gone or a sign is there: that one shows
// his end, too. So it is with who is not root and has a port meanwhile, which is no sign.
func (l *proxyLife) take(written string, signs kubeproxy.Signs, unseen error, now time.Time) (alive string) {
	sign := signs.Text()
	if sign == "" && unseen != nil {
		sign = "it could not be looked at: " + unseen.Error()
	}
	keep(&l.free, signs.Port == "" && signs.Other == "", now)
	keep(&l.quiet, sign == "", now)
	anew := written != l.written
	l.written = written
	switch {
	case signs.Text() != "":
		l.shown, l.wrote = true, false
	case l.gone(now):
		l.shown, l.wrote = false, l.wrote || anew
	case anew && l.shown && signs.Other == "":
		l.quiet = now // it was the last that it did, or the first of its successor
	case anew:
		l.wrote = true
	}
	if l.wrote {
		return cmp.Or(sign, whoWrote)
	}
	return sign
}

// none is a look that showed no rules: whoever writes some is new.
func (l *proxyLife) none() { *l = proxyLife{} }

// gone reports whether there has been no sign of it for long enough.
func (l *proxyLife) gone(now time.Time) bool { return isOver(l.quiet, now) }

// leaves reports whether its ports have been free for long enough.
func (l *proxyLife) leaves(now time.Time) bool { return isOver(l.free, now) }

func isOver(since, now time.Time) bool { return !since.IsZero() && now.Sub(since) >= proxyQuiet }

// keep keeps since when something is so; zero where it is not.
func keep(since *time.Time, so bool, now time.Time) {
	switch {
	case !so:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
}
