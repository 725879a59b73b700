package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// A field of another type reads as absent, and costs no other field; numbers
// out of range end at it; what is not known is passed over.
func TestDecodeSpecIsLenientByField(t *testing.T) {
	valid := Object{
		"gridUniqKey": "site", "templates": Object{"north": "canary"}, "defaultTemplateName": "canary", "autoDeleteUnusedTemplate": true,
		"rollout": Object{"order": []any{"a", "b"}, "maxUnits": "10%", "pauseSeconds": int64(5), "progressDeadlineSeconds": int64(60), "maxFailedUnits": int64(2), "paused": true},
	}
	want := func(change func(s *apiv1.WorkloadGridSpec)) apiv1.WorkloadGridSpec {
		percent := intstr.FromString("10%")
		s := apiv1.WorkloadGridSpec{
			GridUniqKey: "site", Templates: map[string]apiv1.TemplateName{"north": "canary"}, DefaultTemplateName: "canary", AutoDeleteUnusedTemplate: true,
			Rollout: &apiv1.Rollout{Order: []apiv1.LabelValue{"a", "b"}, MaxUnits: &percent, PauseSeconds: 5, ProgressDeadlineSeconds: ptr.To(int32(60)), MaxFailedUnits: 2, Paused: true},
		}
		change(&s)
		return s
	}
	number := intstr.FromInt32(3)
	for name, tc := range map[string]struct {
		field []string
		value any
		want  func(s *apiv1.WorkloadGridSpec)
	}{
		"as it is to be":      {[]string{"other"}, "unknown", func(*apiv1.WorkloadGridSpec) {}},
		"key is a number":     {[]string{"gridUniqKey"}, int64(1), func(s *apiv1.WorkloadGridSpec) { s.GridUniqKey = "" }},
		"a template's name":   {[]string{"templates", "south"}, int64(1), func(*apiv1.WorkloadGridSpec) {}},
		"templates":           {[]string{"templates"}, "all", func(s *apiv1.WorkloadGridSpec) { s.Templates = nil }},
		"default is a list":   {[]string{"defaultTemplateName"}, []any{"a"}, func(s *apiv1.WorkloadGridSpec) { s.DefaultTemplateName = "" }},
		"flag is a text":      {[]string{"autoDeleteUnusedTemplate"}, "yes", func(s *apiv1.WorkloadGridSpec) { s.AutoDeleteUnusedTemplate = false }},
		"rollout is a text":   {[]string{"rollout"}, "slow", func(s *apiv1.WorkloadGridSpec) { s.Rollout = nil }},
		"a unit in the order": {[]string{"rollout", "order"}, []any{"a", int64(7), "b"}, func(*apiv1.WorkloadGridSpec) {}},
		"size is a number":    {[]string{"rollout", "maxUnits"}, int64(3), func(s *apiv1.WorkloadGridSpec) { s.Rollout.MaxUnits = &number }},
		"size is a flag":      {[]string{"rollout", "maxUnits"}, true, func(s *apiv1.WorkloadGridSpec) { s.Rollout.MaxUnits = nil }},
		"pause is a text":     {[]string{"rollout", "pauseSeconds"}, "long", func(s *apiv1.WorkloadGridSpec) { s.Rollout.PauseSeconds = 0 }},
		"pause is enormous":   {[]string{"rollout", "pauseSeconds"}, int64(1) << 40, func(s *apiv1.WorkloadGridSpec) { s.Rollout.PauseSeconds = 1<<31 - 1 }},
		"nothing is said":     {[]string{"rollout", "progressDeadlineSeconds"}, nil, func(s *apiv1.WorkloadGridSpec) { s.Rollout.ProgressDeadlineSeconds = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			spec := clone(valid)
			last := len(tc.field) - 1
			ensure(spec, tc.field[:last]...)[tc.field[last]] = tc.value
			if diff := cmp.Diff(want(tc.want), decodeSpec(spec, true)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if diff := cmp.Diff(apiv1.WorkloadGridSpec{GridUniqKey: "site"}, decodeSpec(valid, false)); diff != "" {
		t.Errorf("of a ServiceGrid: %s", diff)
	}
}

// One grid that is wrong throughout is told of, and costs no other grid.
func TestABrokenGridCostsNoOther(t *testing.T) {
	w := worldOfUnits(2)
	good := w.Grids[0]
	bad := clone(good)
	bad["metadata"] = Object{"name": "bad", "namespace": "default"}
	bad["spec"] = Object{"gridUniqKey": []any{}, "template": "none", "templatePool": true, "rollout": []any{}}
	w.Grids = []Object{bad, good}
	plans := All(w, DefaultGuard(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	if len(plans) != 2 || len(plans[1].Steps) != 2 || len(plans[1].Problems) != 0 {
		t.Fatalf("plans: %+v", plans)
	}
	var fields []string
	for _, p := range plans[0].Problems {
		fields = append(fields, p.Object+" "+p.Field)
	}
	if diff := cmp.Diff([]string{"deploymentgrid default/bad spec.gridUniqKey", "deploymentgrid default/bad spec.template"}, fields); diff != "" {
		t.Error(diff)
	}
}

// What Prune packs has a field that a manifest may have, too: that is passed over, as
// every field that is not known.
func TestAFieldOfTheNameOfWhatIsPacked(t *testing.T) {
	for _, theirs := range []any{"x", "{}", []any{"x"}, []any{"{}"}, []any{int64(1)}, Object{}} {
		w := worldOfUnits(2)
		for _, obj := range append(w.Grids, w.Children...) {
			obj[packedField] = theirs
		}
		p := All(w, DefaultGuard(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))[0]
		if len(p.Steps) != 2 || len(p.Problems) != 0 {
			t.Errorf("%v: %d steps, problems %v", theirs, len(p.Steps), p.Problems)
		}
	}
}
