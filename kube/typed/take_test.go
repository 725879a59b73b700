package typed_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/kube/internal/apitest"
	"github.com/gridmesh/gridmesh/kube/typed"
)

// A mirror that is Following tells what an object was between two looks, in order, but for what was replaced,
// and for no more versions than it has room for.
func TestFollowing(t *testing.T) {
	s := apitest.New(t)
	put(t, s, "a-1", "a", "x 0")
	m := typed.Nodes(s.Client(t), typed.Selection{}, func(n *corev1.Node) string { return n.Annotations["note"] }).
		Following(func(later, earlier string) bool {
			writer, _, _ := strings.Cut(later, " ")
			return strings.HasPrefix(earlier, writer+" ")
		})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = m.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	<-m.Ready()
	write := func(notes ...string) {
		t.Helper()
		for _, note := range notes {
			put(t, s, "a-1", "a", note)
		}
		last := notes[len(notes)-1]
		for begin := time.Now(); ; time.Sleep(time.Millisecond) {
			if got, _ := m.Get("a-1"); got == last {
				return
			}
			if time.Since(begin) > time.Minute {
				t.Fatalf("%q is not told", last)
			}
		}
	}
	is := func(want ...string) {
		t.Helper()
		got := m.Take()
		if len(got) != 1 || got[0].Key != "a-1" || !slices.Equal(got[0].Versions, want) {
			t.Errorf("taken are %q, want %q", got, want)
		}
		if got := m.Take(); len(got) > 0 {
			t.Errorf("taken again: %q", got)
		}
	}
	is("x 0")
	write("x 1", "y 1", "x 2", "z 1", "y 2")
	is("x 2", "z 1", "y 2")
	write("y 3")
	is("y 3")
	write("y 4", "x 3")
	s.Delete("/api/v1/nodes/a-1")
	for there := true; there; _, there = m.Get("a-1") {
		time.Sleep(time.Millisecond)
	}
	is()
	put(t, s, "a-1", "a", "x 0")
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprintf("w%d 1", i))
	}
	write(many...)
	is(many[len(many)-257:]...)
}
