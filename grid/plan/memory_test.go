package plan

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// largeGrid is one with 40 KB of template and 25 KB of labels.
func largeGrid(image string) Object {
	env, labels := make([]any, 2500), Object{}
	for i := range env {
		env[i] = Object{"name": fmt.Sprintf("e%05d", i)}
	}
	for i := range 2000 {
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
// once more. Decoded a template takes up to forty times its text.
func TestAUnitHoldsNoTemplate(t *testing.T) {
	m := &mirrored{t, NewIndex(), map[Ref]Object{}}
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
