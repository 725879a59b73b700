package typed_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/kube/internal/apitest"
	"github.com/gridmesh/gridmesh/kube/typed"
)

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
