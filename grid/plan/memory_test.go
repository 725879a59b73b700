package plan

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// largeGrid is one with 40 KB of template and 25 KB of labels.
func largeGrid(image string) Object { return sizedGrid(image, 2500, 2000) }

// sizedGrid is one with so many variables and labels.
func sizedGrid(image string, variables, bears int) Object {
	env, labels := make([]any, variables), Object{}
	for i := range env {
		env[i] = Object{"name": fmt.Sprintf("e%05d", i)}
	}
	for i := range bears {
		labels[fmt.Sprintf("l%05d", i)] = ""
	}
	return Object{
		"apiVersion": "superedge.io/v1", "kind": "DeploymentGrid",
		"metadata": Object{"name": "till", "namespace": "default", "uid": "u", "generation": int64(1), "labels": labels},
		"spec": Object{"gridUniqKey": "site", "template": Object{
			"selector": Object{"matchLabels": Object{"app": "x"}},
			"template": Object{"metadata": Object{"labels": Object{"app": "x"}}, "spec": Object{"containers": []any{Object{"name": "c", "image": image, "env": env}}}},
		}},
	}
}

// mirrored is a world as a mirror and an index of it hold it.
type mirrored struct {
	t       *testing.T
	x       *Index
	objects map[Ref]Object
	others  func(child Object) // what others write to one that is made
}

func newMirrored(t *testing.T, others func(child Object)) *mirrored {
	return &mirrored{t, NewIndex(), map[Ref]Object{}, others}
}

// ownLabel gives a child a label of its own.
func ownLabel(child Object) {
	ensure(child, "metadata", "labels")["till"] = value[string](child, "metadata", "name")
}

// set brings an object, as it comes from the API server.
func (m *mirrored) set(obj Object) {
	m.t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		m.t.Fatal(err)
	}
	var out Object
	if err := utiljson.Unmarshal(data, &out); err != nil {
		m.t.Fatal(err)
	}
	Prune(out)
	m.objects[RefOf(out)] = out
	m.x.Set(out)
}

// grow adds units up to a number, with their children, and returns what is held
// then.
func (m *mirrored) grow(units int) (bytes int64) {
	m.t.Helper()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range units {
		m.set(Object{"kind": "Node", "metadata": Object{"name": fmt.Sprint("n", i), "labels": Object{"site": fmt.Sprint("u", i)}}})
	}
	for range 2 {
		p, _ := m.x.Plan(tillRef, DefaultGuard(), now)
		if p.Revision != nil {
			m.set(p.Revision.Object())
		}
		for _, s := range p.Steps {
			if obj := s.Object(now); obj != nil {
				m.others(obj)
				m.set(obj)
			}
		}
	}
	p, _ := m.x.Plan(tillRef, DefaultGuard(), now)
	for _, s := range p.Steps {
		if len(p.Steps) != units || s.Action != Keep {
			m.t.Fatalf("%d steps, %s: %s", len(p.Steps), s.Action, s.Why)
		}
	}
	bytes = heap()
	runtime.KeepAlive(m)
	return bytes
}

// heap is what is on the heap that somebody needs.
func heap() int64 {
	for range 3 { // the second lets go of texts, the third of what held them
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// A unit more costs what is its own, however large template and labels are that
// all units have; and a grid costs its text a few times, with each of its revisions
// once more. Decoded a template takes up to forty times its text. So it is where each
// child has a label of its own, as of a policy engine.
func TestAUnitHoldsNoTemplate(t *testing.T) {
	t.Run("as made", func(t *testing.T) { holdsNoTemplate(t, func(Object) {}) })
	t.Run("with a label of its own", func(t *testing.T) { holdsNoTemplate(t, ownLabel) })
}

func holdsNoTemplate(t *testing.T, others func(child Object)) {
	t.Helper()
	m := newMirrored(t, others)
	none := m.grow(0)
	text := 0
	for i := range 5 {
		grid := largeGrid(fmt.Sprint("v", i))
		ensure(grid, "metadata")["generation"] = int64(i + 1)
		data, _ := json.Marshal(grid)
		text = len(data)
		m.set(grid)
		m.grow(0)
	}
	one := m.grow(1)
	t.Logf("a grid of %d KiB takes %d KiB, with five revisions and one unit", text>>10, (one-none)>>10)
	if most := int64(16 * text); one-none > most {
		t.Errorf("that is more than %d KiB", most>>10)
	}
	const units = 30
	each := (m.grow(1+units) - one) / units
	t.Logf("a unit takes %d bytes", each)
	if each > 16<<10 {
		t.Errorf("that is more than 16 KiB")
	}
}

// A mirror prunes all that it lists before an index sees any of it, and memory is
// collected meanwhile: units have one text all the same, then and once it is read.
func TestUnitsShareWhatNobodyHasReadYet(t *testing.T) {
	spec := value[Object](largeGrid("v1"), "spec", "template")
	text, _ := json.Marshal(spec)
	const units = 20
	objects := make([]Object, units)
	before := heap()
	for i := range objects {
		objects[i] = Object{"kind": "Deployment", "metadata": Object{"name": fmt.Sprint("till-u", i), "namespace": "default"}, "spec": clone(spec)}
		Prune(objects[i])
		heap()
	}
	x := NewIndex()
	for _, when := range []string{"pruned", "read"} {
		took := heap() - before
		t.Logf("%d units of %d KiB, %s, take %d KiB", units, len(text)>>10, when, took>>10)
		if most := int64(3 * len(text)); took > most {
			t.Errorf("that is more than %d KiB", most>>10)
		}
		for _, obj := range objects {
			x.Set(obj)
		}
	}
	runtime.KeepAlive(spec)
	runtime.KeepAlive(objects)
	runtime.KeepAlive(x)
}

// A plan with units whose update was refused compares what their children have alike once,
// and not each of them.
func TestRefusedUnitsAreComparedOnce(t *testing.T) {
	const units = 300
	for name, others := range map[string]func(child Object){
		"a label of its own": ownLabel,
		"one of two specs": func(child Object) {
			ensure(child, "spec")["minReadySeconds"] = int64(len(value[string](child, "metadata", "name")) % 2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMirrored(t, others)
			grid := sizedGrid("v1", 100, 0)
			m.set(grid)
			m.grow(units)
			ensure(grid, "metadata")["generation"] = int64(2)
			ensure(grid, "spec", "template", "selector", "matchLabels")["tier"] = "x"
			ensure(grid, "spec", "template", "template", "metadata", "labels")["tier"] = "x"
			m.set(grid)
			var p Plan
			plan := func() { p, _ = m.x.Plan(tillRef, DefaultGuard(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) }
			before := testing.AllocsPerRun(1, plan)
			failures := map[string]Failure{}
			for _, s := range p.Steps {
				failures[s.Key()] = Failure{Text: "refused", Hash: s.Hash(), Final: true}
			}
			m.x.Failed(tillRef, failures)
			after := testing.AllocsPerRun(1, plan)
			for _, s := range p.Steps {
				if len(p.Steps) != units || !strings.Contains(s.Why, "with another selector") {
					t.Fatalf("%d steps, %s: %s", len(p.Steps), s.Action, s.Why)
				}
			}
			template, _ := m.x.grids[tillRef].template("u0")
			decoded := testing.AllocsPerRun(1, func() { template.alike.open() })
			t.Logf("%.0f allocations, and %.0f more once they were refused; %.0f to decode the template", before, after-before, decoded)
			if after-before > 10*decoded { // it and the child's for each of two, and to compare them
				t.Error("the template is decoded again and again")
			}
		})
	}
}
