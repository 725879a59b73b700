package typed_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/kube/internal/apitest"
	"github.com/gridmesh/gridmesh/kube/typed"
)

// What a table holds is what is written, and nothing else is told of it.
func TestNodeTables(t *testing.T) {
	s := apitest.New(t)
	c := s.Client(t)
	m := typed.NodeTables(c, "gridmesh", typed.Selection{Fields: "metadata.name=gridmesh-units"})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = m.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	<-m.Ready()
	<-m.Wake()
	const key = "gridmesh/gridmesh-units"
	if table, ok := m.Get(key); ok {
		t.Fatalf("there is %v", table)
	}
	write := func(name string, data map[string]string) {
		t.Helper()
		if err := typed.WriteTable(ctx, c, "gridmesh", name, "gridmesh-health", data); err != nil {
			t.Fatal(err)
		}
	}
	write("gridmesh-shield", map[string]string{"x": "y"})
	write("gridmesh-units", map[string]string{})
	<-m.Wake()
	if table, ok := m.Get(key); !ok || table == nil || len(table) > 0 || len(m.All()) != 1 {
		t.Errorf("an empty one is %v, %v, of %v", table, ok, m.All())
	}
	want := map[string]string{"a-1": "a", "b-1": "b"}
	write("gridmesh-units", want)
	<-m.Wake()
	if table, _ := m.Get(key); !maps.Equal(table, want) {
		t.Errorf("it is %v, want %v", table, want)
	}
	size := 0
	for node, unit := range want {
		size += typed.TableRow(node, unit)
	}
	if data, err := json.Marshal(want); err != nil || size != len(data)-len("{}")+len(",") {
		t.Errorf("%s (%v) has %d bytes by TableRow", data, err, size)
	}
	s.Close()
	if err := typed.WriteTable(ctx, c, "gridmesh", "gridmesh-units", "x", want); err == nil || !strings.Contains(err.Error(), "write NodeTable gridmesh/gridmesh-units") {
		t.Errorf("nobody answers: %v", err)
	}
}

func put(t *testing.T, s *apitest.Server, name, unit, note string) {
	t.Helper()
	s.Put(t, strings.NewReplacer("NAME", name, "UNIT", unit, "NOTE", note).Replace(`
apiVersion: v1
kind: Node
metadata: {name: NAME, labels: {unit: UNIT}, annotations: {note: "NOTE"}}
`))
}

// A mirror has what is kept of what is selected, and wakes for that alone.
func TestMirror(t *testing.T) {
	s := apitest.New(t)
	put(t, s, "a-1", "a", "")
	put(t, s, "b-1", "b", "")
	m := typed.Nodes(s.Client(t), typed.Selection{Labels: "unit=a"}, func(n *corev1.Node) string { return n.Labels["unit"] + "/" + n.Annotations["kept"] })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = m.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	<-m.Ready()
	if got := m.All(); len(got) != 1 || got["a-1"] != "a/" {
		t.Fatalf("all: %v", got)
	}
	<-m.Wake()
	if got := m.Changes(); !slices.Equal(got, []string{"a-1"}) {
		t.Errorf("changes: %v", got)
	}
	put(t, s, "a-1", "a", "a heartbeat")
	put(t, s, "a-2", "a", "")
	<-m.Wake()
	if got := m.Changes(); !slices.Equal(got, []string{"a-2"}) {
		t.Errorf("changes: %v", got)
	}
	s.Delete("/api/v1/nodes/a-1")
	<-m.Wake()
	if _, ok := m.Get("a-1"); ok || !slices.Equal(m.Changes(), []string{"a-1"}) {
		t.Error("what is gone is there")
	}
	if err := m.Fault(); err != nil {
		t.Error(err)
	}
	s.Close()
	for begin := time.Now(); m.Fault() == nil; time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("that nobody answers is not said")
		}
	}
	if _, ok := m.Get("a-2"); !ok {
		t.Error("what was known is gone with the API server")
	}
}
