package node

import "github.com/prometheus/client_golang/prometheus"

// countSilence shows since when the cloud has been silent, where there is one.
func (a *Agent) countSilence() error {
	if a.parts.Cluster == nil {
		return nil
	}
	return a.parts.Registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gridmesh_last_contact_timestamp_seconds", Help: "When the API server last answered anything; 0: not since the start.",
	}, func() float64 {
		if at := a.lastContact(); !at.IsZero() {
			return float64(at.UnixMilli()) / 1e3
		}
		return 0
	}))
}
