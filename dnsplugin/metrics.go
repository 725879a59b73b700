package dnsplugin

import (
	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// CoreDNS's way: metrics are global, and the prometheus plugin serves them.
var (
	requests = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "requests_total",
		Help: "Requests, by what became of them: data, nodata, nxdomain, passed.",
	}, []string{"server", "result"})
	entries = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "entries",
		Help: "Names that are answered, by kind: service, host.",
	}, []string{"kind"})
	updated = promauto.NewGauge(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "update_timestamp_seconds",
		Help: "When the data changed last, as a Unix time.",
	})
	snapshotErrors = promauto.NewCounter(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "snapshot_errors_total",
		Help: "Times that the snapshot file could not be read or written.",
	})
)
