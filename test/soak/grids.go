package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// A grid has two templates, its own and canary, of as many replicas. What makes two
// versions of one differ is a variable, and of v2 the image's name as well.
const gridManifest = `
apiVersion: superedge.io/v1
kind: DeploymentGrid
metadata: {name: NAME}
spec:
  gridUniqKey: unit
  template: TEMPLATE
  templatePool: {canary: TEMPLATE}
---
apiVersion: superedge.io/v1
kind: ServiceGrid
metadata: {name: NAME}
spec:
  gridUniqKey: unit
  template: {selector: {app: NAME}, ports: [{port: 80, targetPort: main}]}
`

const templateManifest = `{replicas: 1, selector: {matchLabels: {app: NAME}}, template: {metadata: {labels: {app: NAME}}, spec: {terminationGracePeriodSeconds: 1, containers: CONTAINERS}}}`

const (
	mainTemplate   = apiv1.DefaultTemplate
	canaryTemplate = "canary"
	versionName    = "VERSION" // of the variable
)

// waveDeadline is how long a unit may take for a change before the rollout stops: what
// is done to units here lasts longer, so rollouts stop, and have to go on.
const waveDeadline = 10

// containersOf are those of a version.
func containersOf(version string) []any {
	image := "gridmesh.test/app"
	if version == "v2" {
		image += ":1"
	}
	return []any{map[string]any{
		"name": "app", "image": image, "ports": []any{map[string]any{"name": "main", "containerPort": appPort}},
		"env": []any{map[string]any{"name": versionName, "value": version}},
	}}
}

// editGrid patches a grid; one that is not there is made first, of one replica and v0.
// What the patch does not name stays.
func (s *Soak) editGrid(ctx context.Context, name string, patch any) error {
	err := s.patchGrid(ctx, name, patch)
	if !apierrors.IsNotFound(err) {
		return err
	}
	template := strings.ReplaceAll(templateManifest, "CONTAINERS", asJSON(containersOf("v0")))
	if err := s.c.Apply(strings.NewReplacer("TEMPLATE", strings.ReplaceAll(template, "NAME", name), "NAME", name).Replace(gridManifest)); err != nil {
		return err
	}
	return s.patchGrid(ctx, name, patch)
}

const gridsPath = "/apis/superedge.io/v1/namespaces/default/deploymentgrids/"

func (s *Soak) patchGrid(ctx context.Context, name string, spec any) error {
	return s.c.Kube.Discovery().RESTClient().Patch(types.MergePatchType).AbsPath(gridsPath + name).
		Body([]byte(asJSON(map[string]any{"spec": spec}))).Do(ctx).Error()
}

// templatePatch is a patch of one of a grid's templates.
func templatePatch(name string, patch any) map[string]any {
	if name == mainTemplate {
		return map[string]any{"template": patch}
	}
	return map[string]any{"templatePool": map[string]any{name: patch}}
}

func (s *Soak) setGrid(ctx context.Context, args []string) error {
	replicas := map[string]any{"replicas": json.Number(args[1])}
	return s.editGrid(ctx, args[0], map[string]any{"template": replicas, "templatePool": map[string]any{canaryTemplate: replicas}})
}

func (s *Soak) setVersion(ctx context.Context, args []string) error {
	spec := map[string]any{"spec": map[string]any{"containers": containersOf(args[2])}}
	return s.editGrid(ctx, args[0], templatePatch(args[1], map[string]any{"template": spec}))
}

// setTemplate gives a unit one of the templates.
func (s *Soak) setTemplate(ctx context.Context, args []string) error {
	var name any // of the default template: none
	if args[2] != mainTemplate {
		name = args[2]
	}
	return s.editGrid(ctx, args[0], map[string]any{"templates": map[string]any{args[1]: name}})
}

// setRollout has changes go in waves, or all at once. It lets alone whether they pause.
func (s *Soak) setRollout(ctx context.Context, args []string) error {
	size, wait, order := args[1], args[2], args[3]
	if size == "none" {
		return s.editGrid(ctx, args[0], map[string]any{"rollout": nil})
	}
	d, err := time.ParseDuration(wait)
	if err != nil {
		return err
	}
	r := map[string]any{"maxUnits": json.Number(size), "pauseSeconds": int(d.Seconds()), "progressDeadlineSeconds": waveDeadline, "order": nil}
	if strings.HasSuffix(size, "%") {
		r["maxUnits"] = size
	}
	if order != "-" {
		r["order"] = strings.Split(order, ",")
	}
	return s.editGrid(ctx, args[0], map[string]any{"rollout": r})
}

// pauseGrid lets no wave begin for a time.
func (s *Soak) pauseGrid(ctx context.Context, args []string) (func() error, error) {
	name := args[0]
	target := "rollout of " + name
	if !s.take(target) {
		return nil, errBusy
	}
	if err := s.editGrid(ctx, name, map[string]any{"rollout": map[string]any{"paused": true}}); err != nil {
		s.free(target)
		return nil, &leftOut{err}
	}
	return s.insist(ctx, func() error { return s.resumeGrid(ctx, name) }, func() { s.free(target) }), nil
}

// resumeGrid ends a pause, if the grid is there still, and so is its rollout: to say that
// one is not paused would make it one in waves.
func (s *Soak) resumeGrid(ctx context.Context, name string) error {
	data, err := s.c.Kube.Discovery().RESTClient().Get().AbsPath(gridsPath + name).DoRaw(ctx)
	if err != nil {
		return gone(err)
	}
	var now deploymentGrid
	if err := json.Unmarshal(data, &now); err != nil {
		return fmt.Errorf("read grid %s: %w", name, err)
	}
	if now.Spec.Rollout == nil || !now.Spec.Rollout.Paused {
		return nil
	}
	return gone(s.patchGrid(ctx, name, map[string]any{"rollout": map[string]any{"paused": nil}}))
}

func (s *Soak) deleteGrid(_ context.Context, args []string) error {
	out, err := s.c.Kubectl("delete", "--ignore-not-found", "--wait=false", "deploymentgrid/"+args[0], "servicegrid/"+args[0])
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(out))
	}
	return nil
}

// rolledOut reports what a grid does not say of itself that is to be once nothing is done
// to it any more: every unit runs what it says, and nothing waits, is stopped or pauses.
func (g *deploymentGrid) rolledOut(n int) error {
	st, units := &g.Status, int64(n)
	complete := st.ObservedGeneration == g.Generation && st.Units == units && st.ReadyUnits == units && st.UpdatedUnits == units && st.HeldUnits == 0 && st.RefusedUnits == 0 &&
		len(st.Gone) == 0 && (st.Rollout == nil || len(st.Rollout.Failed) == 0) && meta.IsStatusConditionTrue(st.Conditions, apiv1.Valid)
	if c := meta.FindStatusCondition(st.Conditions, apiv1.Progressing); g.DeletionTimestamp != nil || !complete || c == nil || c.Reason != "Complete" {
		return fmt.Errorf("grid %s of generation %d says of %d units: %s", g.Name, g.Generation, units, asJSON(st))
	}
	if g.Spec.Rollout != nil && g.Spec.Rollout.Paused {
		return fmt.Errorf("the rollout of grid %s is paused", g.Name)
	}
	return nil
}

// templateOf is that of a unit.
func (g *deploymentGrid) templateOf(unit string) gridTemplate {
	if t, ok := g.Spec.TemplatePool[g.Spec.Templates[unit]]; ok {
		return t
	}
	return g.Spec.Template
}

// versionOf tells the versions of a template apart.
func versionOf(t *corev1.PodTemplateSpec) string {
	version := "no version"
	for _, c := range t.Spec.Containers {
		for _, e := range c.Env {
			if e.Name == versionName {
				version = e.Value + " by the image " + c.Image
			}
		}
	}
	return version
}
