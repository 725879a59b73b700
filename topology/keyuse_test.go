package topology

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/internal/near"
)

// A Service of another tenant's costs the same where Services have keys that no node has, and
// a node has more labels than anybody counts: each change once compared all of these anew, and
// every agent of a cluster fell minutes behind.
func TestKeysThatNoNodeHasCostOthersNothing(t *testing.T) {
	cost := func(services, labels int) float64 {
		b, v := NewBuilder(), NewViewer("n0", Options{})
		mine := map[string]string{"unit": "a"}
		for i := range labels {
			mine[fmt.Sprintf("x.example/label-of-a-kubelet-%06d", i)] = "v"
		}
		b.SetNode(&Node{Name: "n0", Labels: mine})
		for i := range services {
			var keys []string
			for k := range 16 {
				keys = append(keys, fmt.Sprintf("%q", fmt.Sprintf("x.example/label-of-a-tenant-%05d", i*16+k)))
			}
			text := "[" + strings.Join(keys, ",") + "]"
			b.SetService(&Service{Key: ObjectKey{Namespace: "wide", Name: fmt.Sprint("s", i)}, TopologyKeys: &text})
		}
		v.See(b.Build())
		other := 0
		return testing.AllocsPerRun(20, func() {
			other++
			b.SetService(&Service{
				Key: ObjectKey{Namespace: "other", Name: "web"}, ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 97, 0, byte(other)})},
				Ports: []ServicePort{{Protocol: TCP, Port: 80}},
			})
			v.See(b.Build())
		})
	}
	alone, among := cost(0, 0), cost(100, 20000)
	t.Logf("a change takes %.0f allocations alone, %.0f among 1600 such keys and 20,000 labels", alone, among)
	if among > 2*alone+20 {
		t.Errorf("a change takes %.0f allocations among keys that no node has, %.0f alone", among, alone)
	}
}

// What may be meant is a label that most nodes have, whatever a kubelet writes onto its own.
func TestMeantIsWhatMostNodesHave(t *testing.T) {
	u := newKeyUse()
	for i := range 3 {
		u.relabel(nil, &Node{Name: fmt.Sprint("n", i), Labels: map[string]string{"unit": "a"}})
	}
	hostile := map[string]string{}
	for i := range 10 * near.MostMeant {
		hostile[fmt.Sprintf("unid%d", i)] = "v"
	}
	u.relabel(nil, &Node{Name: "other", Labels: hostile})
	u.useKey("unti", 1)
	u.settle(true)
	if got := u.absent["unti"]; got != "unit" {
		t.Errorf("%q may be meant, want unit", got)
	}
	u.relabel(&Node{Labels: map[string]string{"unit": "a"}}, &Node{Labels: map[string]string{"unit": "a", "unti": "b"}})
	u.settle(true)
	if _, absent := u.absent["unti"]; absent {
		t.Error("a node has the key, and it is told that none has")
	}
}

// Of more keys than are looked at each is told still, without what may be meant.
func TestEachKeyThatNoNodeHasIsTold(t *testing.T) {
	u := newKeyUse()
	u.relabel(nil, &Node{Labels: map[string]string{"unit": "a"}})
	for i := range 2 * mostMistaken {
		u.useKey(fmt.Sprintf("unit%04d", i), 1)
	}
	u.useKey("unitx", 1)
	u.settle(true)
	if len(u.absent) != 2*mostMistaken+1 || len(u.meant) != mostMistaken {
		t.Errorf("%d keys are told, and of %d it was looked what is meant; want %d, %d", len(u.absent), len(u.meant), 2*mostMistaken+1, mostMistaken)
	}
}

// Whatever comes and goes, what is known is what somebody would find who sees it first.
func TestKeyUseIsAsFromScratch(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("unit unti uni site siet sites zone zoen region")
	u, nodes, keys := newKeyUse(), map[string]*Node{}, map[string]int{}
	for step := range 3000 {
		known := r.IntN(20) > 0
		if word := words[r.IntN(len(words))]; r.IntN(2) == 0 {
			n := 1
			if keys[word] > 0 && r.IntN(2) == 0 {
				n = -1
			}
			keys[word] += n
			u.useKey(word, n)
		} else {
			name := fmt.Sprint("n", r.IntN(4))
			var next *Node
			if r.IntN(4) > 0 {
				next = &Node{Name: name, Labels: map[string]string{}}
				for range r.IntN(4) {
					next.Labels[words[r.IntN(len(words))]] = []string{"", "a", "b"}[r.IntN(3)]
				}
			}
			u.relabel(nodes[name], next)
			if nodes[name] = next; next == nil {
				delete(nodes, name)
			}
		}
		u.settle(known)
		fresh := newKeyUse()
		for _, n := range nodes {
			fresh.relabel(nil, n)
		}
		for word, n := range keys {
			if n > 0 {
				fresh.useKey(word, n)
			}
		}
		fresh.settle(known)
		if !maps.Equal(u.absent, fresh.absent) || !slices.Equal(u.inUse, fresh.inUse) {
			t.Fatalf("step %d: %v of %v, want %v of %v", step, u.absent, u.inUse, fresh.absent, fresh.inUse)
		}
	}
}
