package grid_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/grid"
	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// services is a mirror of Services.
type services struct {
	wake    chan struct{}
	mu      sync.Mutex
	objects map[plan.Ref]plan.Object
	changed map[plan.Ref]bool
}

func (s *services) Wake() <-chan struct{} { return s.wake }

func (s *services) Changes(f func(kind, namespace, name string)) {
	s.mu.Lock()
	changed := s.changed
	s.changed = map[plan.Ref]bool{}
	s.mu.Unlock()
	for ref := range changed {
		f(ref.Kind, ref.Namespace, ref.Name)
	}
}

func (s *services) Get(kind, namespace, name string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[plan.Ref{Kind: kind, Namespace: namespace, Name: name}]
}

// put sets a Service, pruned as the real mirror prunes it; none deletes it.
func (s *services) put(t *testing.T, name, manifest string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := plan.Ref{Kind: "Service", Namespace: "default", Name: name}
	var obj plan.Object
	if manifest != "" {
		if err := yaml.Unmarshal([]byte(manifest), &obj); err != nil {
			t.Fatal(err)
		}
		obj["kind"], obj["apiVersion"] = "Service", "v1"
		metadata, _ := obj["metadata"].(plan.Object)
		metadata["name"], metadata["namespace"], metadata["uid"], metadata["managedFields"] = name, "default", "u-"+name, []any{plan.Object{"manager": "kubectl"}}
		grid.PruneService(obj)
		if metadata := obj["metadata"].(plan.Object); metadata["managedFields"] != nil || metadata["name"] != name {
			t.Errorf("left is %v", obj)
		}
	}
	s.objects[ref], s.changed[ref] = obj, true
	if obj == nil {
		delete(s.objects, ref)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func tellKeys(t *testing.T, test func(s *services, events *gridtest.Recorder)) {
	synctest.Test(t, func(t *testing.T) {
		s := &services{wake: make(chan struct{}, 1), objects: map[plan.Ref]plan.Object{}, changed: map[plan.Ref]bool{}}
		events := &gridtest.Recorder{}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- grid.NewKeys(s, events, slog.New(slog.DiscardHandler)).Run(ctx) }()
		test(s, events)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Whoever writes topology keys that are a mistake is told so where they look: at
// the Service. So is nobody else.
func TestMistakenKeysAreTold(t *testing.T) {
	for name, tc := range map[string]struct{ service, want string }{
		"a typo":               {`{metadata: {annotations: {gridmesh.io/datapaht: kernel, a: b}}, spec: {clusterIP: 10.96.0.2}}`, "Annotations: metadata.annotations[gridmesh.io/datapaht]: is no annotation that gridmesh knows, and does nothing"},
		"a typo, and keys":     {`{metadata: {annotations: {gridmesh.io/datapaht: kernel, topologyKeys: site}}, spec: {clusterIP: 10.96.0.2}}`, "metadata.annotations[gridmesh.io/datapaht]: "},
		"many typos":           {`{metadata: {annotations: {gridmesh.io/a: "", gridmesh.io/b: "", gridmesh.io/c: "", gridmesh.io/d: "", gridmesh.io/e: ""}}, spec: {clusterIP: 10.96.0.2}}`, "Annotations: metadata.annotations[gridmesh.io/a]: "},
		"no datapath":          {`{metadata: {annotations: {gridmesh.io/datapath: fast}}, spec: {clusterIP: 10.96.0.2}}`, "Annotations: metadata.annotations[gridmesh.io/datapath]: "},
		"a datapath":           {`{metadata: {annotations: {gridmesh.io/datapath: kernel, gridmesh.io/unit: a}}, spec: {clusterIP: 10.96.0.2}}`, ""},
		"no JSON":              {`{metadata: {annotations: {topologyKeys: site}}, spec: {clusterIP: 10.96.0.2}}`, "metadata.annotations[topologyKeys]: is no JSON array of strings"},
		"too long":             {`{metadata: {annotations: {topologyKeys: '["a"` + strings.Repeat(`,"a"`, 5500) + `]'}}, spec: {clusterIP: 10.96.0.2}}`, "metadata.annotations[topologyKeys]: has 22005 bytes, and more than 8192 are not read"},
		"another case":         {`{metadata: {annotations: {topologykeys: '["site"]'}}, spec: {clusterIP: 10.96.0.2}}`, "metadata.annotations[topologykeys]: is not topologyKeys, though it can be meant for nothing else"},
		"a letter less":        {`{metadata: {annotations: {topologyKey: '["site"]'}}, spec: {clusterIP: 10.96.0.2}}`, "metadata.annotations[topologyKey]: is not topologyKeys"},
		"with a prefix":        {`{metadata: {annotations: {superedge.io/topologyKeys: '["site"]'}}, spec: {clusterIP: 10.96.0.2}}`, "metadata.annotations[superedge.io/topologyKeys]: is not topologyKeys"},
		"no label key":         {`{metadata: {annotations: {topologyKeys: '["a b"]'}}, spec: {clusterIP: None}}`, "metadata.annotations[topologyKeys]: "},
		"headless, of no grid": {`{metadata: {annotations: {topologyKeys: '["site"]'}}, spec: {clusterIP: None}}`, "metadata.annotations[topologyKeys]: does nothing: the Service is headless and of no grid"},
		"headless, of a grid":  {`{metadata: {annotations: {topologyKeys: '["site"]'}, labels: {superedge.io/grid-uniq-key: site}}, spec: {clusterIP: None}}`, ""},
		"good":                 {`{metadata: {annotations: {topologyKeys: '["site"]'}}, spec: {clusterIP: 10.96.0.2}}`, ""},
		"none":                 {`{metadata: {annotations: {a: b}, labels: {c: d}}, spec: {clusterIP: 10.96.0.2}}`, ""},
		"no keys":              {`{metadata: {annotations: {topologykeys: '[]'}}, spec: {clusterIP: 10.96.0.2}}`, ""},
		"another proxy's":      {`{metadata: {annotations: {topologyKeys: site}, labels: {service.kubernetes.io/service-proxy-name: x}}, spec: {clusterIP: 10.96.0.2}}`, ""},
		"a name elsewhere":     {`{metadata: {annotations: {topologyKeys: site}}, spec: {type: ExternalName, externalName: x.example}}`, "metadata.annotations[topologyKeys]: does nothing: the Service is an ExternalName"},
	} {
		t.Run(name, func(t *testing.T) {
			tellKeys(t, func(s *services, events *gridtest.Recorder) {
				s.put(t, "web", tc.service)
				time.Sleep(time.Minute)
				synctest.Wait()
				all := events.All()
				if tc.want == "" && len(all) == 0 {
					return
				}
				want := "service default/web: TopologyKeys: " + tc.want
				if strings.HasPrefix(tc.want, "Annotations: ") {
					want = "service default/web: " + tc.want
				}
				if len(all) != 1 || tc.want == "" || !strings.HasPrefix(all[0], want) || strings.Contains(all[0], "gridmesh.io/d]") {
					t.Errorf("told: %q, want %q", all, tc.want)
				}
			})
		})
	}
}

// A mistake that stands is told of twice an hour, for Events pass away; another
// one at once; one that is mended no more. Thousands cost what a hundred cost.
func TestMistakenKeysAreToldWithinBounds(t *testing.T) {
	tellKeys(t, func(s *services, events *gridtest.Recorder) {
		const bad = `{metadata: {annotations: {topologyKeys: %s}}, spec: {clusterIP: 10.96.0.2}}`
		count := func(after time.Duration, want int, what string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := len(events.All()); got != want {
				t.Errorf("%s: %d Events, want %d", what, got, want)
			}
		}
		s.put(t, "web", fmt.Sprintf(bad, "a"))
		count(time.Second, 1, "a mistake")
		s.put(t, "web", fmt.Sprintf(bad, "a"))
		count(29*time.Minute, 1, "the same")
		s.put(t, "web", fmt.Sprintf(bad, "b"))
		count(time.Second, 2, "another")
		count(65*time.Minute, 4, "that one, an hour later")
		s.put(t, "web", fmt.Sprintf(bad, `'["site"]'`))
		count(2*time.Hour, 4, "mended")
		for i := range 1000 {
			s.put(t, fmt.Sprint("s", i), fmt.Sprintf(bad, "a"))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		told := len(events.All()) - 4
		if told < 500 || told > 700 {
			t.Errorf("%d Events within a minute about a thousand Services", told)
		}
		for i := range 1000 {
			s.put(t, fmt.Sprint("s", i), "")
		}
		count(2*time.Hour, 4+told, "all deleted")
	})
}
