package node

import (
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/obs"
)

// silentWatch is the finding where watches of the API server stay open and say nothing.
const silentWatch capture.FindingKind = "silent-watch"

// waitingHold is the finding where a hold goes on, for the API server does not say again
// all that there is to say of endpoints.
const waitingHold capture.FindingKind = "waiting-hold"

// configuration is the finding where what was given to ask the API server by, or manifests, cannot be used.
const configuration capture.FindingKind = "configuration"

// patientFor is how long a hold may wait for a watch before that is told: a quiet one says
// something about once a minute.
const patientFor = 2 * time.Minute

// clock lets the hold's clock go on, where all that says which endpoints there are, and where,
// speaks since the outage: any other answer says no more than that the API server is there.
// What is held itself, and lists that come late, are stale as before.
func (l *loop) clock() {
	h, now := &l.healing, l.uplink.LastContact
	if h.hold == nil || l.parts.Cluster == nil {
		h.unheard = nil
		return
	}
	was := h.unheard
	h.unheard = l.parts.Cluster.Unheard(h.since)
	h.hold.Clock(now, len(h.unheard) == 0)
	if len(h.unheard) == 0 {
		h.waits = time.Time{}
	} else if h.waits.IsZero() {
		h.waits = now
	}
	if len(was) > 0 && len(h.unheard) == 0 {
		l.log.Info("the API server speaks again about all that it did before the outage")
	}
	if !slices.Equal(was, h.unheard) && len(h.unheard) > 0 {
		l.said.unheard.Say(l.log.Info, "the hold waits for watches of the API server that have said nothing since the outage, or say nothing now", obs.KeyWhich, strings.Join(h.unheard, ", "))
	}
}

// judgeWatches notes what watches of the API server keep to themselves, and why nobody can be asked.
func (l *loop) judgeWatches() {
	list := append(l.misconfigured(), l.podless.finding(time.Now(), l.live && l.asksPods() && len(l.pods) == 0 && l.view != nil && l.view.Viewpoint.Known, l.answeredOwn.Load())...)
	if l.parts.Cluster != nil {
		list = append(list, l.unspoken()...)
	}
	l.show(l.found.replaceWatches(list))
}

// misconfigured is why what was given to ask by cannot be used.
func (l *loop) misconfigured() []capture.Finding {
	ever, fault := l.usable()
	if fault == nil {
		return nil
	}
	goes := "this node serves what it knows"
	if ever {
		goes = "what was given before goes on"
	}
	return []capture.Finding{{Kind: configuration, Text: "what says where to ask what is to be served cannot be used, and is looked at again every few seconds; " + goes + ": " + fault.Error()}}
}

// unspoken is what watches of the API server keep to themselves.
func (l *loop) unspoken() (list []capture.Finding) {
	if silent := l.parts.Cluster.Silent(); len(silent) > 0 {
		list = append(list, capture.Finding{Kind: silentWatch, Text: "watches of the API server stay open and bring nothing, not even a bookmark: " + strings.Join(silent, ", ") +
			"; all of that is listed every few minutes instead, and followed as late: see what is between this node and the API server (a proxy, a load balancer, a firewall), or whether the API server sends bookmarks"})
	}
	if h := &l.healing; h.hold != nil && !h.waits.IsZero() && l.uplink.LastContact.Sub(h.waits) >= patientFor {
		list = append(list, capture.Finding{Kind: waitingHold, Text: "the hold after an outage goes on, for the API server answers, and does not say all again: waiting for " + strings.Join(h.unheard, ", ") +
			"; see that it answers lists and watches of that to this agent (status says what fails), with the rights that deploy/ gives it"})
	}
	return list
}
