package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/topology"
)

// metric is a counter's or gauge's value, or how many values a histogram has taken.
func (r *rig) metric(t *testing.T, name string) float64 {
	t.Helper()
	families, err := r.agent.parts.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func TestStatusSaysWhatIsServedAndWhatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Pods: prefixes("10.244.1.0/24")}
		r.found = []capture.Finding{{Kind: capture.InputDrop, Text: "a chain that drops"}}
		r.mustStart(t)
		r.xds.Connect("1.40.0")
		o := webAndOther()
		o.Builder().SetProblems([]topology.Problem{problem("bad")})
		r.publish(o)
		r.xds.Refuse("10.96.0.10:80", "port taken")
		r.xds.Refuse("10.96.0.10:80", "port taken") // again: no second Event
		got := r.agent.status()
		if got.Node != "a-1" || got.Unit["unit"] != "a" || got.Source != report.Live || got.Pods != "routed" || got.Services != 2 || got.Preloaded != 2 {
			t.Errorf("got %+v", got)
		}
		if got.APIServer == nil || got.APIServer.LastContact.IsZero() {
			t.Error("nothing about the API server")
		}
		if len(got.Envoys) != 1 || len(got.Findings) != 1 || len(got.Problems) != 1 || !got.Updated.Equal(time.Now()) {
			t.Errorf("got %+v", got)
		}
		if len(got.Nacks) != 1 || got.Nacks[0].Service != "default/web" {
			t.Errorf("refused: %+v", got.Nacks)
		}
		want := "EnvoyRefusedResource: cluster 10.96.0.10:80 of service default/web; what Envoy held before stays in force: port taken"
		if events := r.api.Events(); len(events) != 2 || events[0] != "GridmeshConflict: a chain that drops" || events[1] != want {
			t.Errorf("Events: %q", events)
		}
		changed := time.Now()
		r.api.Set(func(a *nodetest.API) { a.Away = errBroken })
		after(5 * time.Minute)
		if got := r.agent.status(); !got.Updated.Equal(changed) {
			t.Errorf("in an outage in which nothing changes: changed at %s, want %s", got.Updated, changed)
		}
	})
}

// refusing is a capture that refuses every view while it is told to.
type refusing struct {
	Capture
	refuses *atomic.Bool
}

func (c refusing) Retract(v *topology.View, provisional bool) error {
	if c.refuses.Load() {
		return errBroken
	}
	return c.Capture.Retract(v, provisional)
}

// What is served changes when the kernel takes it: however often a write is tried that it
// refuses, status and healthz say how old what is in force is.
func TestWhatIsRefusedIsNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var refuses atomic.Bool
		refuses.Store(true)
		r.wrap = func(c Capture) Capture { return refusing{c, &refuses} }
		r.mustStart(t)
		want := func(when string, at time.Time) {
			t.Helper()
			if got := r.agent.status().Updated; !got.Equal(at) {
				t.Errorf("%s: changed at %s, want %s", when, got, at)
			}
			if h := r.agent.health(time.Now()); !h.LastUpdated.Equal(at) || h.Healthy == refuses.Load() {
				t.Errorf("%s: %+v", when, h)
			}
		}
		r.publish(webOnly())
		after(time.Minute)
		want("refused from the beginning", time.Time{})
		taken := func(when string) time.Time {
			t.Helper()
			refuses.Store(false)
			began := time.Now()
			after(repairEvery)
			at := r.agent.status().Updated
			if at.Before(began) || at.After(time.Now()) {
				t.Errorf("%s: changed at %s, want %s at least", when, at, began)
			}
			want(when, at)
			return at
		}
		at := taken("taken")
		refuses.Store(true)
		o := webAndOther()
		r.publish(o)
		for range 5 {
			after(time.Minute)
			want("refused for minutes", at)
		}
		at = taken("taken again")
		after(time.Minute)
		r.publish(o)
		want("told the same", at)
		refuses.Store(true)
		o.Delete("other")
		r.publish(o)
		want("one that goes, refused", at)
		taken("one that goes")
	})
}

// Before the first snapshot the status says that, and no nonsense.
func TestStatusInTheFirstMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		got := r.agent.status()
		if got.Version == "" || got.Node != "a-1" || got.Source != report.None || got.Unit == nil || got.Envoys == nil {
			t.Errorf("got %+v", got)
		}
		var text bytes.Buffer
		must(t, got.WriteText(&text, time.Now()))
		if strings.Contains(text.String(), "2562047h") || !strings.Contains(text.String(), "source      none yet: nothing is served") || strings.Contains(text.String(), "services ") {
			t.Errorf("it says\n%s", text.String())
		}
		out, err := json.Marshal(got)
		must(t, err)
		if strings.Contains(string(out), "0001-01-01") || strings.Contains(string(out), "null") {
			t.Errorf("as JSON: %s", out)
		}
	})
}

// What the source said last is known for as long as it is silent.
func TestStatusSaysForHowLongTheSourceIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		r.source.Contacted(time.Now())
		r.publish(webOnly())
		after(time.Hour)
		if got := r.agent.status(); time.Since(got.LastContact) != time.Hour {
			t.Errorf("heard %s ago", time.Since(got.LastContact))
		}
	})
}

// What tenants write makes no report long.
func TestTheReportIsBounded(t *testing.T) {
	const listed = 50
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		r.xds.Connect("1.40.0")
		o, labels := nodetest.NewObjects(), map[string]string{}
		for i := range 200 {
			labels[fmt.Sprintf("tenant-%03d", i)] = "b"
			keys := fmt.Sprintf(`["tenant-%03d"]`, i)
			o.Builder().SetService(&topology.Service{
				Key: topology.ObjectKey{Namespace: "default", Name: fmt.Sprint("s", i)}, TopologyKeys: &keys, Unserved: topology.UnservedNodePorts,
				ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 1, byte(i)})}, Ports: []topology.ServicePort{{Protocol: topology.TCP, Port: 80}},
			})
			r.xds.Refuse(fmt.Sprintf("10.96.1.%d:80", i), "no")
		}
		o.Builder().SetNode(&topology.Node{Name: "b-1", Labels: labels})
		r.publish(o)
		got := r.agent.status()
		if len(got.Notes) != 2 || !strings.Contains(got.Notes[0], "the label tenant-000, tenant-001, tenant-002, tenant-003, tenant-004, … on") || !strings.Contains(got.Notes[1], "has no label tenant-000, ") {
			t.Errorf("%d notes: %q", len(got.Notes), got.Notes)
		}
		if got.Notices != 200 || len(got.Nacks) != listed || got.MoreNacks != 200-listed {
			t.Errorf("%d notices, %d refusals and %d more", got.Notices, len(got.Nacks), got.MoreNacks)
		}
		o.Delete("s0")
		r.publish(o)
		if got := r.agent.status().Notices; got != 199 {
			t.Errorf("%d notices, want 199", got)
		}
	})
}

func TestStatusSaysWhoseTheUnitKeyIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		r.publish(webOnly())
		if got := r.agent.status().Notes; len(got) != 1 || !strings.Contains(got[0], "every kubelet may set the label unit ") || !strings.Contains(got[0], "node-restriction.kubernetes.io/") {
			t.Errorf("notes: %q", got)
		}
	})
}

// Of a node that has no Node nobody knows the labels: that it has none is not said.
func TestStatusSaysThatTheUnitIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		o := webOnly()
		o.Builder().DeleteNode(r.cfg.Node)
		r.publish(o)
		got := r.agent.status()
		var text strings.Builder
		if err := got.WriteText(&text, time.Now()); err != nil {
			t.Fatal(err)
		}
		if !got.UnitUnknown || !strings.Contains(text.String(), "\nunit        unknown: ") || strings.Contains(text.String(), "has no label") {
			t.Errorf("%s", text.String())
		}
	})
}

// What `refused` of the API server's status is stays a truth: a program that was built for
// it reads no status that has a time there. Since when that is has a name of its own.
func TestTheStatusSaysThatTheAPIServerRefuses(t *testing.T) {
	for away, want := range map[error]string{errRefuses: `"refused":true,"refusedSince":"2026-01-02T03:04:05Z"`, errBroken: "", nil: ""} {
		r := newRig(t)
		r.api = &nodetest.API{Away: away}
		var err error
		r.agent, err = New(r.cfg, r.parts())
		must(t, err)
		text, err := json.Marshal(r.agent.status())
		must(t, err)
		if got := string(text); want == "" && strings.Contains(got, "efuse") || !strings.Contains(got, want) {
			t.Errorf("%v: %s", away, got)
		}
	}
}
