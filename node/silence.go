package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// countSilence shows since when the cloud has been silent, where there is one.
func (a *Agent) countSilence() error {
	if a.parts.Cluster == nil {
		return nil
	}
	return a.parts.Registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gridmesh_last_contact_timestamp_seconds", Help: "When the API server last answered anything, to this agent or to one before it on the node; 0: never, as far as is known.",
	}, func() float64 {
		if at := a.silentSince(); !at.IsZero() {
			return float64(at.UnixMilli()) / 1e3
		}
		return 0
	}))
}

// silentSince is the last contact of this process, or of those before it: a
// restart in an outage does not end the silence, for the metric, the status and
// the node's DNS alike.
func (a *Agent) silentSince() time.Time {
	if at := a.lastContact(); !at.IsZero() {
		return at
	}
	if known := a.known.Load(); known != nil {
		return *known
	}
	return time.Time{}
}
