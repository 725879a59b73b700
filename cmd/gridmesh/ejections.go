package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/gridmesh/gridmesh/node/envoy"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/admin"
	"github.com/gridmesh/gridmesh/xds/render"
)

// ejections are what the node's Envoy sends nobody to at the moment, as far as the
// agent knows. Where it does not, a row without a mark says nothing.
type ejections struct {
	At      time.Time `json:"at,omitzero"`       // when Envoy said so
	Unknown string    `json:"unknown,omitempty"` // why nobody knows
	More    int       `json:"more,omitempty"`    // clusters with some that are not marked

	of   map[string]envoy.Ejection // by cluster
	used bool                      // a row is Envoy's to serve
}

// ejections asks the agent; nil where the state is none of its node's.
func (in *input) ejections(ctx context.Context) *ejections {
	agent := in.agent(ctx)
	if in.origin != fromAgent || agent.Node != "" && agent.Node != in.node {
		return nil
	}
	if why := ejectionsUnknown(&agent); why != "" {
		return &ejections{Unknown: why}
	}
	e := &ejections{At: agent.Ejections.At, More: agent.Ejections.More, of: map[string]envoy.Ejection{}}
	for _, j := range agent.Ejections.List {
		e.of[j.Cluster] = j
	}
	return e
}

// noEnvoy is what noteEnvoy says, too.
const noEnvoy = "no Envoy is connected"

// ejectionsUnknown says why an agent does not know what is ejected; "" where it does.
func ejectionsUnknown(agent *report.Report) string {
	switch e := agent.Ejections; {
	case agent.Envoys != nil && len(agent.Envoys) == 0:
		return noEnvoy
	case e != nil && e.Error != "":
		return "its admin socket gives no answer: " + e.Error
	case e == nil || e.At.IsZero():
		return "the agent does not say"
	}
	return ""
}

// What Envoy says of an endpoint that it sends nobody to.
const (
	outEjected   = "ejected"
	outUnhealthy = "unhealthy"
)

var outTexts = map[string]string{
	outEjected:   "ejected by Envoy: a connection to it failed",
	outUnhealthy: "Envoy sends nobody there: unhealthy, as it was told",
}

// why is what keeps connections from an endpoint of a tier; "" for nothing.
func (e endRow) why() string {
	switch out := outTexts[e.Envoy]; {
	case e.Vote == "":
		return out
	case e.Envoy == outEjected:
		return e.Vote + "; " + out
	}
	return e.Vote // which is why Envoy takes it for unhealthy
}

// unmarkedText is of how many endpoints nobody knows which they are, of so many.
const unmarkedText = "%d of %d endpoints are ejected by Envoy, which was not asked just now which"

// mark marks the endpoints of a row that are out of use.
func (e *ejections) mark(row *frontendRow, f *topology.FrontendView) {
	if e == nil || f.Path != topology.PathEnvoy || row.Answer != answerServed {
		return
	}
	e.used = true
	j, ok := e.of[render.ClusterName(f.Frontend)]
	if !ok {
		return
	}
	row.Unmarked, row.of = max(j.Out-len(j.Endpoints), 0), j.Of
	out := map[string]string{}
	for _, end := range j.Endpoints {
		out[end.Address.String()] = outOf(end)
	}
	for _, tier := range row.Tiers {
		for i := range tier.Endpoints {
			tier.Endpoints[i].Envoy = out[tier.Endpoints[i].Address]
		}
	}
}

func outOf(end admin.Endpoint) string {
	if end.Unhealthy {
		return outUnhealthy
	}
	return outEjected
}

// line says what the marks do not.
func (e *ejections) line(out io.Writer) {
	switch {
	case e == nil || !e.used || e.Unknown == noEnvoy:
		return
	case e.Unknown != "":
		fmt.Fprintln(out, "what Envoy has ejected is unknown:", e.Unknown)
	case time.Since(e.At) > envoy.AnswerWithin:
		fmt.Fprintln(out, "what Envoy has ejected is what it said", time.Since(e.At).Round(time.Second), "ago")
	}
	if e.More > 0 {
		fmt.Fprintf(out, "endpoints of %d more clusters are ejected by Envoy, and not marked here\n", e.More)
	}
}
