package cloud

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
)

// faults are how many watches are said to be at fault.
func (r *rig) faults() float64 {
	r.t.Helper()
	return r.gauge(r.metrics.faults)
}

// gauge is the sum of what a gauge shows.
func (r *rig) gauge(of prometheus.Collector) (n float64) {
	r.t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(of)
	families, err := registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			n += m.GetGauge().GetValue()
		}
	}
	return n
}

// Who cannot read the Leases, and reads the Nodes, keeps nobody for ever.
func TestTheLeasesAreRefused(t *testing.T) {
	r := shielded(t)
	r.on.pods["a-2"] = []*corev1.Pod{pod("kept", "True", "True")}
	errRefused, told := errors.New("leases is forbidden"), []error{}
	r.cfg.Fault = func(err error) { told = append(told, err) }
	refused := func(d time.Duration) {
		for range int(d / time.Second) {
			r.hear(r.now, nil, errRefused)
			r.pass(time.Second, false)
		}
	}
	refused(5 * time.Minute)
	r.listedAre("for a while all stay", "a-1", "a-2", "a-3")
	if !errors.Is(told[len(told)-1], errRefused) || r.faults() != 1 {
		t.Errorf("told %v", told[len(told)-1])
	}
	refused(13 * time.Minute)
	r.listedAre("it is Kubernetes' own")
	r.podsAre("it is Kubernetes' own", "kept=False ")
	r.hear(r.now, nil, nil)
	r.say("a-2", "true", "yes=3 no=0 of=3 exact=true cut=true round=2")
	r.pass(10*time.Second, true)
	r.listedAre("they can be read", "a-2")
	if told[len(told)-1] != nil || r.faults() != 0 {
		t.Errorf("told %v", told[len(told)-1])
	}
}

// A fault of both that ends with one before the other is no mistake: nobody is given up by it.
func TestAnOutageEndsInParts(t *testing.T) {
	r := shielded(t)
	errSilent := errors.New("nobody answers")
	for range 3600 {
		r.hear(r.now, errSilent, errSilent)
		r.pass(time.Second, false)
	}
	for range 60 {
		r.hear(r.now, nil, errSilent)
		r.pass(time.Second, false)
	}
	r.hear(r.now, nil, nil)
	r.pass(40*time.Second, true)
	r.listedAre("the Leases are told at last", "a-1", "a-2", "a-3")
}
