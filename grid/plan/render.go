package plan

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/api/names"
	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// templateHash is a label that SuperEdge's controller wrote into templates and
// so onto pods. To take it away would replace them.
const templateHash = "superedge.io/template-hash-key"

// wish is a child as it is to be, before it is rendered: to compare costs
// less than to render.
type wish struct {
	grid                *grid
	template            *template
	live                *child // nil for none
	unit, name          string
	replicas            int64 // -1 for none
	labels, annotations map[string]string
	hash                string // the annotation Applied
}

// wants says what a unit's child is to be.
func (g *grid) wants(t *template, unit, name string, live *child) *wish {
	w := &wish{
		grid: g, template: t, live: live, unit: unit, name: name, replicas: t.scale(live),
		labels: maps.Clone(g.labels), annotations: map[string]string{names.UnitKey: g.unitKey},
	}
	if w.labels == nil {
		w.labels = map[string]string{}
	}
	w.labels[names.GridSelector], w.labels[names.GridUniqKey] = g.ref.Name, keyLabel(g.unitKey)
	if g.child == "Service" {
		for k, v := range g.annotations {
			if !strings.HasPrefix(k, "kubectl.kubernetes.io/") {
				w.annotations[k] = v
			}
		}
		w.annotations[names.TopologyKeys] = `["` + g.unitKey + `"]`
	} else {
		w.annotations[names.Unit] = unit
		if t.replicas >= 0 {
			w.annotations[names.Replicas] = strconv.FormatInt(t.replicas, 10)
		}
	}
	w.hash = sum(t.sum, g.unitKey, unit, name, w.labels, w.annotations, g.uid)
	return w
}

func (w *wish) render(now time.Time) Object {
	version, spec := "v1", clone(w.template.spec)
	if w.grid.child != "Service" {
		version = "apps/v1"
		w.renderWorkload(spec)
	}
	annotations := anyMap(w.annotations)
	annotations[names.Applied], annotations[names.AppliedAt] = w.hash, Time(now)
	return Object{
		"apiVersion": version, "kind": w.grid.child,
		"metadata": Object{
			"namespace": w.grid.ref.Namespace, "name": w.name, "labels": anyMap(w.labels), "annotations": annotations,
			"ownerReferences": []any{w.grid.ownerReference()},
		},
		"spec": spec,
	}
}

// Time is how times stand in annotations.
func Time(t time.Time) string { return t.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano) }

func (w *wish) renderWorkload(spec Object) {
	pod := ensure(spec, "template")
	ensure(ensure(pod, "spec"), "nodeSelector")[w.grid.unitKey] = w.unit
	if w.replicas >= 0 {
		spec["replicas"] = w.replicas
	}
	if w.live == nil {
		return
	}
	if old := text(w.live.obj, "spec", "template", "metadata", "labels", templateHash); old != "" {
		labels := ensure(ensure(pod, "metadata"), "labels")
		if _, given := labels[templateHash]; !given {
			labels[templateHash] = old
		}
	}
}

func (g *grid) ownerReference() Object {
	return Object{
		"apiVersion": apiv1.Group + "/" + apiv1.Version, "kind": g.ref.Kind, "name": g.ref.Name, "uid": g.uid,
		"controller": true, "blockOwnerDeletion": true,
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
	case live.othersScale():
		return -1
	case t.replicas < 0 && slices.Contains(live.scalers(), Manager):
		return number(live.obj, -1, "spec", "replicas")
	}
	return t.replicas
}

// drifted names the first field of the live child that is not as it is to be,
// though it was applied so, or "".
func (w *wish) drifted() string {
	if at, differs := drift(w.template.spec, w.live.obj["spec"]); differs {
		return "spec" + at
	}
	if w.grid.child != "Service" {
		if text(w.live.obj, "spec", "template", "spec", "nodeSelector", w.grid.unitKey) != w.unit {
			return "spec.template.spec.nodeSelector." + w.grid.unitKey
		}
		if w.replicas >= 0 && number(w.live.obj, -1, "spec", "replicas") != w.replicas {
			return "spec.replicas"
		}
	}
	if key := missing(w.labels, w.live.labels); key != "" {
		return "metadata.labels." + key
	}
	if key := missing(w.annotations, w.live.annotations); key != "" {
		return "metadata.annotations." + key
	}
	if w.live.ownerKind == "" {
		return "metadata.ownerReferences"
	}
	return ""
}

// missing is the first key that a map lacks or has another value of.
func missing(want, has map[string]string) string {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if v, ok := has[key]; !ok || v != want[key] {
			return key
		}
	}
	return ""
}
