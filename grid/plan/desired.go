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

// desired is a child as it is to be, before it is rendered: to compare costs
// less than to render.
type desired struct {
	grid        *grid
	template    *template
	live        *child // nil for none
	unit, name  string
	replicas    int64 // -1 for none
	annotations map[string]string
	hash        string // the annotation Applied
	early       bool   // before the turn of its unit: of no wave
}

// desired says what a unit's child is to be.
func (g *grid) desired(t *template, unit, name string, live *child) *desired {
	d := g.draft(t, unit, name, live)
	d.hash = d.hashWith(g.bears)
	return d
}

// draft is that without its hash.
func (g *grid) draft(t *template, unit, name string, live *child) *desired {
	d := &desired{
		grid: g, template: t, live: live, unit: unit, name: name, replicas: t.scale(live),
		annotations: map[string]string{names.UnitKey: g.unitKey},
	}
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
	return d
}

// hashWith is what the annotation Applied is where the child is given such labels. Children
// are known by it that were applied by an earlier version: it is not to change.
func (d *desired) hashWith(labels map[string]string) string {
	return sum(d.template.sum, d.grid.unitKey, d.unit, d.name, labels, d.annotations, d.grid.uid)
}

// render makes the object to apply.
func (d *desired) render(now time.Time) Object {
	g := d.grid
	annotations := anyMap(d.annotations)
	annotations[names.Applied] = d.hash
	if !d.early {
		annotations[names.AppliedAt] = Time(now)
	}
	if g.kind.PerUnit {
		annotations[names.AppliedTemplate] = d.template.sum
	}
	return Object{
		"apiVersion": g.kind.APIVersion(), "kind": g.kind.Child,
		"metadata": Object{
			"namespace": g.ref.Namespace, "name": d.name, "labels": anyMap(g.bears), "annotations": annotations,
			"ownerReferences": []any{g.ownerReference()},
		},
		"spec": d.spec(),
	}
}

func (d *desired) spec() Object {
	kind, spec := d.grid.kind, d.template.alike.open()
	if !kind.PerUnit {
		return spec
	}
	selector := ensure(spec, kind.nodeSelector()...)
	maps.Copy(selector, d.template.nodeSelector)
	selector[d.grid.unitKey] = d.unit
	if d.replicas >= 0 {
		_ = unstructured.SetNestedField(spec, d.replicas, kind.replicas...) // a spec is an object
	}
	if d.live == nil {
		return spec
	}
	if old := value[string](value[Object](d.live.spec(), kind.podLabels()...), templateHash); old != "" {
		labels := ensure(spec, kind.podLabels()...)
		if _, given := labels[templateHash]; !given {
			labels[templateHash] = old
		}
	}
	return spec
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

// compare is in what the spec of a child differs from a template, but for what units do
// not have alike. Its lists are not to be written to.
func (t *template) compare(c *child) *comparison {
	if last := t.last.Load(); last != nil && last.alike == c.alike {
		return last
	}
	live, spec := c.alike.open(), t.alike.open()
	is := &comparison{c.alike, differences("spec", spec, live), c.kind.differFixed(spec, live)}
	t.last.Store(is)
	return is
}

// compareLabels is in what its labels differ. The list is not to be written to.
func (t *template) compareLabels(c *child) []difference {
	if last := t.lastLabels.Load(); last != nil && slices.Equal(last.labels, c.given) {
		return last.differs
	}
	is, has := &labelling{labels: c.given}, c.allLabels()
	for _, key := range missing(t.labels, has) {
		is.differs = append(is.differs, difference{"metadata.labels." + key, has[key]})
	}
	t.lastLabels.Store(is)
	return is.differs
}

// drifted lists the fields of a child that are not as they are to be, though
// it was applied so.
func (d *desired) drifted(c *child) []difference {
	list := slices.Clone(d.template.compare(c).spec)
	add := func(path string, live any) { list = append(list, difference{path, live}) }
	if kind := d.grid.kind; kind.PerUnit {
		selector := "spec." + strings.Join(kind.nodeSelector(), ".")
		list = append(list, differences(selector, d.template.nodeSelector, value[Object](c.spec(), kind.nodeSelector()...))...)
		slices.SortFunc(list, compareDifferences)
		if unit := c.selected(d.grid.unitKey); unit != d.unit {
			add(selector+"."+d.grid.unitKey, unit)
		}
		if n := c.replicas(-1); d.replicas >= 0 && n != d.replicas {
			add("spec."+strings.Join(kind.replicas, "."), n)
		}
	}
	list = append(list, d.template.compareLabels(c)...)
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
	wanted, live := value[Object](d.spec(), kind.pods...), value[Object](d.live.whole(), kind.pods...)
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
