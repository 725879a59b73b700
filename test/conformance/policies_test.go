package main

import (
	"slices"
	"strings"
	"testing"
)

// An engine has a list, columns and results of its own; one that nobody knows is refused.
func TestWhatSpecsRunBeside(t *testing.T) {
	alone, with := beside(""), beside(kubeRouter)
	if alone.results() == with.results() || alone.expectations() == with.expectations() {
		t.Errorf("both have %s and %s", with.results(), with.expectations())
	}
	if !slices.Contains(alone.proxies(), "gridmesh-envoy") || slices.Contains(with.proxies(), "gridmesh-envoy") {
		t.Errorf("columns: %q and %q", alone.proxies(), with.proxies())
	}
	for engine, ok := range map[string]bool{"": true, kubeRouter: true, "calico": false} {
		o := options{proxy: "kube-proxy", policies: engine, nodes: 1, processes: 1, timeout: 1, specTimeout: 1}
		if err := o.validate(); (err == nil) != ok {
			t.Errorf("--policies %q: %v", engine, err)
		}
	}
	o := options{proxy: "gridmesh-envoy", policies: kubeRouter, nodes: 1, processes: 1, timeout: 1, specTimeout: 1}
	if err := o.validate(); err == nil || !strings.Contains(err.Error(), "--proxy") {
		t.Errorf("--datapath envoy beside an engine: %v", err)
	}
}

// What a run is about includes the engine.
func TestTheEngineIsTested(t *testing.T) {
	for engine, want := range map[beside]bool{"": false, kubeRouter: true} {
		if got := slices.Contains(tested("gridmesh", engine), kubeRouter); got != want {
			t.Errorf("beside %q: %v", engine, got)
		}
	}
}

// A long log of an engine is told by its end.
func TestTheEndOfALog(t *testing.T) {
	if got := last(strings.Repeat("a", 5000) + "end"); len(got) != 2000 || !strings.HasSuffix(got, "end") {
		t.Errorf("%d bytes: %q", len(got), got[len(got)-9:])
	}
	if got := last("end"); got != "end" {
		t.Errorf("%q", got)
	}
}
