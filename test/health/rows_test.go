package health

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/test/cluster/load"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/outage"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

var (
	unitA    = []string{"a-1", "a-2", "a-3"}
	everyone = []string{"a-1", "a-2", "a-3", "b-1", "b-2"}
)

// served is an app on a-1 and a-2, which are all of its unit, that is dialled from some of them, in a
// cluster in which all vote.
func served(t *testing.T, name string, from ...string) (app *outage.App, dials *load.Generator) {
	t.Helper()
	controller(t)
	policies(t)
	voters(t, everyone...)
	app = outage.Deploy(t, c, name, outage.Brief, [2]string{"a-1", "a-2"})
	voted(t, "true", everyone...)
	var spaces []*netlab.NS
	for _, node := range from {
		spaces = append(spaces, c.Nodes[node].NS)
	}
	dials = load.Start(t, spaces, app.To)
	dials.More(t, 20)
	return app, dials
}

// cut cuts a line until the test ends, or what it returns is called.
func cut(t *testing.T, set func(name string, cut bool) error, name string) (heal func()) {
	t.Helper()
	must(t, set(name, true))
	heal = func() { must(t, set(name, false)) }
	t.Cleanup(heal)
	return heal
}

// untainted waits until nodes have no taint.
func untainted(t *testing.T, nodes ...string) {
	t.Helper()
	took := wait.Eventually(t, func() error {
		for _, node := range nodes {
			if got := taints(t, node); len(got) > 0 {
				return fmt.Errorf("%s has the taints %v", node, got)
			}
		}
		return nil
	})
	t.Logf("%v have no taint after %s", nodes, took.Round(time.Second))
}

// sliceWrites counts the writes of EndpointSlices so far, of everybody.
func sliceWrites(t *testing.T) float64 {
	t.Helper()
	n, err := c.Writes(patient(t), func(resource, _ string) bool { return resource == "endpointslices" })
	must(t, err)
	return n
}

// A unit loses its uplink, all of it, for longer than Kubernetes waits, and has it back: no pod is
// deleted, no endpoint is written, no request inside fails, meanwhile and after it.
func TestUplinkOfTheWholeUnit(t *testing.T) {
	away, _, err := outage.Length()
	must(t, err)
	away = max(away, 90*time.Second)
	app, dials := served(t, "dark", "a-1", "a-2")
	before, writes := endpoints(t, app.Service), sliceWrites(t)
	stays := func() error {
		if err := app.Stayed(patient(t)); err != nil {
			return err
		}
		if now := endpoints(t, app.Service); now != before {
			return fmt.Errorf("endpoints are %s, were %s", now, before)
		}
		return nil
	}
	began := time.Now()
	heal := cut(t, c.Lab.SetUplink, "a")
	for _, node := range unitA {
		lost(t, node)
	}
	wait.Holds(t, away-time.Since(began), stays)
	heal()
	untainted(t, unitA...)
	wait.Holds(t, 30*time.Second, stays)
	load.NoneFailed(t, fmt.Sprintf("the uplink of a was cut for %s and healed", away), dials.Stop())
	if n := sliceWrites(t) - writes; n > 0 {
		t.Errorf("%.0f writes of EndpointSlices", n)
	}
}

// A node dies: its unit says so, and it is evicted no later than a minute after Kubernetes alone
// would have. Nobody who dials its Service since then fails.
func TestANodeDies(t *testing.T) {
	const stock = 50*time.Second + 5*time.Second // the cloud's patience, and what the app tolerates
	app, dials := served(t, "dead", "a-1")
	load.NoneFailed(t, "all is well", dials.Stop())
	heal := cut(t, c.Lab.SetNode, "a-2")
	began := time.Now()
	dials = load.Start(t, []*netlab.NS{c.Nodes["a-1"].NS}, app.To) // what is open to a node that dies ends with it
	voted(t, "false", "a-2")
	evicted := func() error {
		if got := taints(t, "a-2"); !slices.Contains(got, evicts) {
			return fmt.Errorf("a-2 has the taints %v", got)
		}
		if app.Stayed(patient(t)) == nil {
			return fmt.Errorf("the pod on a-2 is not deleted")
		}
		if text := endpoints(t, app.Service); strings.Count(text, "ready true") != 1 {
			return fmt.Errorf("endpoints are %s", text)
		}
		return nil
	}
	wait.Eventually(t, evicted)
	took := time.Since(began)
	t.Logf("evicted, and of no Service, %s after it died; Kubernetes alone: %s", took.Round(time.Second), stock)
	if took > stock+time.Minute {
		t.Errorf("it took %s, more than a minute longer than the %s of Kubernetes alone", took, stock)
	}
	for _, node := range []string{"a-1", "a-3"} {
		if got := taints(t, node); len(got) > 0 {
			t.Errorf("%s, which lives, has the taints %v", node, got)
		}
	}
	load.NoneFailed(t, "a-2 died", dials.Stop())
	heal()
	voted(t, "true", "a-2")
	untainted(t, "a-2")
	wait.Eventually(t, func() error { return app.Ready(patient(t)) })
}

// Others of its unit do not see a node that the cloud hears: nothing new is placed on it, an Event
// says why, and what is there stays.
func TestANodeThatItsUnitDoesNotSee(t *testing.T) {
	app, dials := served(t, "unseen", "a-1", "a-2")
	before := endpoints(t, app.Service)
	heal := cut(t, c.Lab.SetNodePeers, "a-2")
	voted(t, "false", "a-2")
	unseen := names.UnseenTaint + ":NoSchedule"
	wait.Eventually(t, func() error {
		if got := taints(t, "a-2"); !slices.Equal(got, []string{unseen}) {
			return fmt.Errorf("a-2 has the taints %v, want %s", got, unseen)
		}
		return told(patient(t), "a-2", "NodeUnseenByUnit")
	})
	wait.Holds(t, time.Minute, func() error {
		if got := taints(t, "a-2"); !slices.Equal(got, []string{unseen}) {
			return fmt.Errorf("a-2 has the taints %v, want %s", got, unseen)
		}
		if err := app.Stayed(patient(t)); err != nil {
			return err
		}
		if now := endpoints(t, app.Service); now != before {
			return fmt.Errorf("endpoints are %s, were %s", now, before)
		}
		return nil
	})
	heal()
	voted(t, "true", "a-2")
	untainted(t, "a-2")
	load.NoneFailed(t, "a-2 was not seen by its unit", dials.Stop())
}

// told returns nil once there is an Event about a node.
func told(ctx context.Context, node, reason string) error {
	list, err := c.Kube.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + node + ",reason=" + reason})
	if err == nil && len(list.Items) == 0 {
		err = fmt.Errorf("no Event %s about %s", reason, node)
	}
	return err
}
