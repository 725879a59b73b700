package dnsplugin

import (
	"sync"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// CoreDNS's way: metrics are global, and the prometheus plugin serves them.
var (
	requests = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "requests_total",
		Help: "Requests, by what became of them: data, nodata, nxdomain, passed, failed.",
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

// running are the instances that answer; what they hold is measured when
// somebody asks.
var running = &instances{all: map[*Grid]bool{}}

func init() { prometheus.MustRegister(running) } // CoreDNS's way

type instances struct {
	mu  sync.Mutex
	all map[*Grid]bool
}

func (i *instances) set(g *Grid, there bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if delete(i.all, g); there {
		i.all[g] = true
	}
}

var (
	ageDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "data_age_seconds"),
		"How long ago the last contact with the origin of the data was, the API server where there is one; from a snapshot, how long ago that was written.", []string{"source"}, nil)
	originDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "data_origin"),
		"1 for where the answers are from: source, snapshot, or part (of the source's data, while the cloud is away).", []string{"source", "origin"}, nil)
)

// Describe implements prometheus.Collector.
func (i *instances) Describe(to chan<- *prometheus.Desc) { to <- ageDesc; to <- originDesc }

// Collect implements prometheus.Collector. Of several instances with one
// source, the oldest data counts.
func (i *instances) Collect(to chan<- prometheus.Metric) {
	i.mu.Lock()
	defer i.mu.Unlock()
	type key struct{ source, origin string }
	ages, origins := map[string]time.Duration{}, map[key]bool{}
	for g := range i.all {
		source := g.cfg.source.String()
		if now := g.now.Load(); now != nil {
			origins[key{source, string(now.from)}] = true
		}
		if at := g.lastContact(); !at.IsZero() {
			ages[source] = max(ages[source], time.Since(at)) // 0 after a clock was set back
		}
	}
	for source, age := range ages {
		to <- prometheus.MustNewConstMetric(ageDesc, prometheus.GaugeValue, age.Seconds(), source)
	}
	for k := range origins {
		to <- prometheus.MustNewConstMetric(originDesc, prometheus.GaugeValue, 1, k.source, k.origin)
	}
}
