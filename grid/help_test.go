package grid_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gridmesh/gridmesh/grid"
	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a cluster in memory with a controller, in a time of its own.
type world struct {
	*gridtest.Cluster
	t        *testing.T
	events   *gridtest.Recorder
	registry *prometheus.Registry
	stop     func()
}

// settings are what a test may choose; the zero value is for most.
type settings struct {
	gridtest.Config
	guard    plan.Guard
	parallel int
	mirror   func(c *gridtest.Cluster) grid.Mirror // nil: the cluster's
}

// run sets up a cluster, starts a controller, and ends both after the test.
func run(t *testing.T, s settings, setUp func(c *gridtest.Cluster), test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{Cluster: gridtest.New(s.Config), t: t, events: &gridtest.Recorder{}}
		setUp(w.Cluster)
		w.lead(s)
		test(w)
		w.stop()
	})
}

// lead starts a controller.
func (w *world) lead(s settings) {
	if s.guard == (plan.Guard{}) {
		s.guard = plan.DefaultGuard()
	}
	w.Relist()
	w.registry = prometheus.NewRegistry()
	var mirror grid.Mirror = w.Cluster
	if s.mirror != nil {
		mirror = s.mirror(w.Cluster)
	}
	c := grid.New(mirror, w.Cluster, grid.Config{
		Guard: s.guard, Parallel: max(s.parallel, 4), Log: slog.New(slog.DiscardHandler), Metrics: grid.NewMetrics(w.registry), Events: w.events,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.Run(ctx); err != nil {
			w.t.Error(err)
		}
	}()
	w.stop = func() { cancel(); <-done }
}

// pass lets time pass, and everything that follows from it happen.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// soon is enough for what happens without a wait.
func (w *world) soon() { w.pass(5 * time.Second) }

// written are the calls that changed something since a time.
func (w *world) written(since time.Time) []gridtest.Call {
	return w.Calls(func(c gridtest.Call) bool { return c.Changed && !c.At.Before(since) })
}

// quiet fails where anything is written within an hour, in vain or not.
func (w *world) quiet() {
	w.t.Helper()
	since := time.Now()
	w.pass(time.Hour)
	for _, call := range w.Calls(func(c gridtest.Call) bool { return c.Verb != gridtest.Live && !c.At.Before(since) }) {
		w.t.Errorf("though nothing changed: %s %s (changed: %v)", call.Verb, call.Ref, call.Changed)
	}
}

// label has a Node bear one label alone; whether it is ready stays.
func (w *world) label(node, key, value string) {
	w.Edit(plan.Ref{Kind: "Node", Name: node}, func(o plan.Object) {
		o["metadata"].(plan.Object)["labels"] = plan.Object{key: value}
	})
}

// ready says whether a Node is, since now.
func (w *world) ready(node, status string) {
	w.Edit(plan.Ref{Kind: "Node", Name: node}, func(o plan.Object) {
		o["status"] = plan.Object{"conditions": []any{plan.Object{"type": "Ready", "status": status, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}}}
	})
}

// names checks which objects of a kind there are.
func (w *world) names(kind string, want ...string) {
	w.t.Helper()
	if got := w.Names(kind); strings.Join(got, " ") != strings.Join(want, " ") {
		w.t.Errorf("%ss: %v, want %v", kind, got, want)
	}
}

func (w *world) event(text string) {
	w.t.Helper()
	if !w.events.Has(text) {
		w.t.Errorf("no Event has %q:\n%s", text, strings.Join(w.events.All(), "\n"))
	}
}

func (w *world) noEvent(text string) {
	w.t.Helper()
	if w.events.Has(text) {
		w.t.Errorf("an Event has %q:\n%s", text, strings.Join(w.events.All(), "\n"))
	}
}

// at is the field of an object at a path with dots, or nil.
func (w *world) at(ref plan.Ref, path string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(w.Object(ref), strings.Split(path, ".")...)
	return v
}

func (w *world) is(ref plan.Ref, path string, want any) {
	w.t.Helper()
	if got := w.at(ref, path); fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("%s: %s is %v, want %v", ref, path, got, want)
	}
}

func (w *world) annotation(ref plan.Ref, key string) string {
	return (&unstructured.Unstructured{Object: w.Object(ref)}).GetAnnotations()[key]
}

// condition is the status of a condition of a grid, and its message.
func (w *world) condition(ref plan.Ref, kind string) (status, message string) {
	list, _ := w.at(ref, "status.conditions").([]any)
	for _, o := range list {
		if c := o.(plan.Object); c["type"] == kind {
			message, _ = c["message"].(string)
			return c["status"].(string), message
		}
	}
	return "", ""
}

// failures are the writes that are counted as failed.
func (w *world) failures() (n float64) {
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Error(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "gridmesh_grid_failures_total" {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// update writes manifests as their user does; NAME=value pairs replace words.
func update(c *gridtest.Cluster, manifest string, replace ...string) {
	c.Update("kubectl", strings.NewReplacer(replace...).Replace(manifest))
}

func deployment(name string) plan.Ref {
	return plan.Ref{Kind: "Deployment", Namespace: "default", Name: name}
}

var till = plan.Ref{Kind: "DeploymentGrid", Namespace: "default", Name: "till"}

const tillGrid = `
apiVersion: superedge.io/v1
kind: DeploymentGrid
metadata: {name: till, labels: {team: shops}}
spec:
  gridUniqKey: site
  template:
    replicas: 2
    selector: {matchLabels: {app: till}}
    template:
      metadata: {labels: {app: till}}
      spec: {containers: [{name: c, image: v1}]}
`

// inWaves is the same with a rollout.
const inWaves = tillGrid + `
  rollout: {maxUnits: 1, pauseSeconds: 60, progressDeadlineSeconds: 600}
`

// shops are Nodes of units, one each.
func shops(units ...string) func(c *gridtest.Cluster) {
	return func(c *gridtest.Cluster) {
		for _, unit := range units {
			c.Node("node-"+unit, "site", unit)
		}
	}
}

// plans are how many plans were made.
func (w *world) plans() (n uint64) {
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Error(err)
	}
	for _, f := range families {
		if f.GetName() == "gridmesh_grid_plan_duration_seconds" {
			n += f.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	return n
}
