package plan

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gridmesh/gridmesh/api/names"
)

// templateHash is a label that SuperEdge's controller wrote into templates and
// so onto pods. To take it away would replace them.
const templateHash = "superedge.io/template-hash-key"

// desired is a child as it is to be, before it is rendered: to compare costs
// less than to render.
type desired struct {
	grid                *grid
	template            *template
	live                *child // nil for none
	unit, name          string
	replicas            int64 // -1 for none
	labels, annotations map[string]string
	hash                string // the annotation Applied
}

// desired says what a unit's child is to be.
func (g *grid) desired(t *template, unit, name string, live *child) *desired {
	d := &desired{
		grid: g, template: t, live: live, unit: unit, name: name, replicas: t.scale(live),
		labels: maps.Clone(g.labels), annotations: map[string]string{names.UnitKey: g.unitKey},
	}
	d.labels[names.GridSelector], d.labels[names.GridUniqKey] = g.ref.Name, keyLabel(g.unitKey)
	if g.kind.PerUnit {
		d.annotations[names.Unit] = unit
		if t.replicas >= 0 {
			d.annotations[names.Replicas] = strconv.FormatInt(t.replicas, 10)
		}
	} else {
		for k, v := range g.annotations {
			if !strings.HasPrefix(k, "kubectl.kubernetes.io/") {
				d.annotations[k] = v
			}
		}
		d.annotations[names.TopologyKeys] = `["` + g.unitKey + `"]`
	}
	d.hash = sum(t.sum, g.unitKey, unit, name, d.labels, d.annotations, g.uid)
	return d
}

// render makes the object to apply.
func (d *desired) render(now time.Time) Object {
	g, spec := d.grid, clone(d.template.spec)
	if g.kind.PerUnit {
		d.renderWorkload(spec)
	}
	annotations := anyMap(d.annotations)
	annotations[names.Applied], annotations[names.AppliedAt] = d.hash, Time(now)
	return Object{
		"apiVersion": g.kind.APIVersion(), "kind": g.kind.Child,
		"metadata": Object{
			"namespace": g.ref.Namespace, "name": d.name, "labels": anyMap(d.labels), "annotations": annotations,
			"ownerReferences": []any{g.ownerReference()},
		},
		"spec": spec,
	}
}

func (d *desired) renderWorkload(spec Object) {
	kind := d.grid.kind
	ensure(spec, kind.nodeSelector()...)[d.grid.unitKey] = d.unit
	if d.replicas >= 0 {
		_ = unstructured.SetNestedField(spec, d.replicas, kind.replicas...) // a spec is an object
	}
	if d.live == nil {
		return
	}
	if old := value[string](value[Object](d.live.spec(), kind.pods...), "metadata", "labels", templateHash); old != "" {
		labels := ensure(ensure(spec, kind.pods...), "metadata", "labels")
		if _, given := labels[templateHash]; !given {
			labels[templateHash] = old
		}
	}
}

// scale is what to apply of spec.replicas; -1 is nothing. It is applied to
// a new child and when the template's value changes. While another manager
// owns it, it stays his; while the grid owns it alone, it is never dropped.
func (t *template) scale(live *child) int64 {
	if live == nil {
		return t.replicas
	}
	before, applied := live.annotations[names.Replicas], live.annotations[names.Applied] != ""
	changed := applied && t.replicas >= 0 && before != strconv.FormatInt(t.replicas, 10)
	switch {
	case changed:
		return t.replicas
	case live.scaledByOthers():
		return -1
	case t.replicas < 0 && slices.Contains(live.scalers(), Manager):
		return live.replicas(-1)
	}
	return t.replicas
}

// drifted lists the fields of a child that are not as they are to be, though
// it was applied so.
func (d *desired) drifted(c *child) []difference {
	list := differences("spec", d.template.spec, c.obj["spec"])
	add := func(path string, live any) { list = append(list, difference{path, live}) }
	if kind := d.grid.kind; kind.PerUnit {
		if unit := c.selected(d.grid.unitKey); unit != d.unit {
			add(strings.Join(append([]string{"spec"}, kind.nodeSelector()...), ".")+"."+d.grid.unitKey, unit)
		}
		if n := c.replicas(-1); d.replicas >= 0 && n != d.replicas {
			add("spec."+strings.Join(kind.replicas, "."), n)
		}
	}
	for _, key := range missing(d.labels, c.labels) {
		add("metadata.labels."+key, c.labels[key])
	}
	for _, key := range missing(d.annotations, c.annotations) {
		add("metadata.annotations."+key, c.annotations[key])
	}
	if c.ownerKind == "" {
		add("metadata.ownerReferences", nil)
	}
	return list
}

// settled is the annotation Settled of a child that differs in a list of
// fields right after it was applied: to apply it again would change nothing.
func (d *desired) settled(list []difference) string {
	parts := []any{d.hash}
	for _, f := range list {
		parts = append(parts, f.path, f.live)
	}
	return sum(parts...)
}

// restarts reports whether to apply it would change the pods' template of the
// live child, and so replace its pods.
func (d *desired) restarts() bool {
	kind := d.grid.kind
	if !kind.PerUnit {
		return false
	}
	spec := clone(d.template.spec)
	d.renderWorkload(spec)
	wanted, live := value[Object](spec, kind.pods...), value[Object](d.live.spec(), kind.pods...)
	return len(differences("", wanted, live)) > 0 || extra(field{}, wanted, live)
}

// missing are the keys that a map lacks or has another value of.
func missing(want, has map[string]string) (keys []string) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if v, ok := has[key]; !ok || v != want[key] {
			keys = append(keys, key)
		}
	}
	return keys
}
