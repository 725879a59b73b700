package plan

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// randomWorld has grids, nodes in units, and none or some of the children.
func randomWorld(r *rand.Rand) World {
	var w World
	keys := []string{"site", "topology.kubernetes.io/zone", "room"}
	units := []string{"a", "b-c", "c", "Shop_17", "x.y"}
	for i := range 1 + r.IntN(8) {
		labels := Object{}
		for _, key := range keys {
			if r.IntN(3) > 0 {
				labels[key] = units[r.IntN(len(units))]
			}
		}
		w.Nodes = append(w.Nodes, Object{"apiVersion": "v1", "kind": "Node", "metadata": Object{"name": fmt.Sprint("n", i), "labels": labels}})
	}
	grids := []string{"a", "a-b", "shop"}
	for i, name := range grids[:1+r.IntN(len(grids))] {
		kind := []string{"DeploymentGrid", "StatefulSetGrid"}[r.IntN(2)]
		template := Object{
			"selector": Object{"matchLabels": Object{"app": name}},
			"template": Object{"metadata": Object{"labels": Object{"app": name}}, "spec": Object{"nodeSelector": Object{"disk": "ssd"}, "containers": []any{Object{"name": "c", "image": fmt.Sprint("v", r.IntN(2))}}}},
		}
		if r.IntN(2) == 0 {
			template["replicas"] = int64(r.IntN(3))
		}
		w.Grids = append(w.Grids,
			Object{"apiVersion": "superedge.io/v1", "kind": kind, "metadata": Object{"name": name, "namespace": "default", "uid": fmt.Sprint("u", i)}, "spec": Object{"gridUniqKey": keys[r.IntN(len(keys))], "template": template}},
			Object{"apiVersion": "superedge.io/v1", "kind": "ServiceGrid", "metadata": Object{"name": name, "namespace": "default", "uid": fmt.Sprint("s", i)}, "spec": Object{"gridUniqKey": keys[r.IntN(len(keys))], "template": Object{"ports": []any{Object{"port": int64(80)}}}}})
	}
	return w
}

// carryOut does to the children what plans say.
func carryOut(w World, plans []Plan) World {
	live := map[childKey]Object{}
	for _, c := range w.Children {
		live[childKey{text(c, "kind"), text(c, "metadata", "namespace"), text(c, "metadata", "name")}] = c
	}
	for _, p := range plans {
		for _, s := range p.Steps {
			key := childKey{s.Kind, p.Key.Namespace, s.Name}
			switch s.Action {
			case Create, Update, Adopt:
				live[key] = clone(s.Object)
			case Remove:
				delete(live, key)
			}
		}
	}
	w.Children = nil
	for _, c := range live {
		w.Children = append(w.Children, c)
	}
	return w
}

// The laws: planning writes into nothing it reads; no two steps want one
// object; every unit has exactly one child, selected by its nodes and by what
// the template asked for; and what was carried out is kept.
func TestLaws(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := randomWorld(r)
		for range 4 {
			before := cloneAny(Object{"g": anyList(w.Grids), "n": anyList(w.Nodes), "c": anyList(w.Children)})
			plans := All(w, DefaultGuard(), now)
			if after := (Object{"g": anyList(w.Grids), "n": anyList(w.Nodes), "c": anyList(w.Children)}); !reflect.DeepEqual(before, after) {
				t.Fatalf("seed %d: planning changed what it read", seed)
			}
			checkPlans(t, seed, plans)
			w = carryOut(w, plans)
			for _, p := range All(w, DefaultGuard(), now) {
				for _, s := range p.Steps {
					if s.Action != Keep && s.Action != Refuse && s.Action != Hold {
						t.Fatalf("seed %d: %s %s, unit %s: %s again: %s", seed, p.Kind, p.Key, s.Unit, s.Action, s.Why)
					}
				}
			}
			next := randomWorld(r) // nodes and grids change, the children stay
			next.Children = w.Children
			w = next
		}
	}
}

func checkPlans(t *testing.T, seed uint64, plans []Plan) {
	t.Helper()
	seen := map[childKey]bool{}
	for _, p := range plans {
		units := map[string]bool{}
		for _, s := range p.Steps {
			key := childKey{s.Kind, p.Key.Namespace, s.Name}
			if s.Action != Refuse && seen[key] {
				t.Fatalf("seed %d: two steps want %v", seed, key)
			}
			seen[key] = seen[key] || s.Action != Refuse
			if s.Kind == "Service" {
				continue
			}
			if s.Nodes > 0 && units[s.Unit] {
				t.Fatalf("seed %d: unit %s of %s has two children", seed, s.Unit, p.Key)
			}
			units[s.Unit] = true
			if s.Object == nil {
				continue
			}
			want := map[string]string{p.UnitKey: s.Unit, "disk": "ssd"}
			if got := texts(s.Object, "spec", "template", "spec", "nodeSelector"); !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: node selector %v, want %v", seed, got, want)
			}
		}
	}
}

func anyList(list []Object) []any {
	out := make([]any, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}

func TestKeyLabel(t *testing.T) {
	for key, want := range map[string]string{
		"site":                        "site",
		"topology.kubernetes.io/zone": "topology.kubernetes.io..zone",
		"a-very-long-prefix.of-a-domain.that-is.still-legal.example.com/region-of-the-world": "sha256-",
	} {
		if got := keyLabel(key); got[:min(len(got), len(want))] != want || len(got) > 63 {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}
