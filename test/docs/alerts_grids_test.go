package docs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Who leaves the controller out leaves its alerts out, too: none is left that asks for what
// only it shows, and all others are.
func TestAlertsWithoutAController(t *testing.T) {
	build := func(components string) []object {
		dir := overlayDir(t, kustomization+"components: ["+components+"]\n")
		of := filepath.Join(dir, "../deploy/kustomization.yaml")
		text, err := os.ReadFile(of)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(of, []byte(strings.Replace(string(text), " controller.yaml,", "", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		return decode(t, kustomize(t, dir))
	}
	rules := func(objects []object) (names []string, asks []rule) {
		for _, o := range objects {
			if o.Kind == "Deployment" && o.Name == "gridmesh-controller" {
				t.Error("there is a controller")
			}
		}
		for _, g := range find(t, objects, "PrometheusRule", "gridmesh").Spec.Groups {
			for _, r := range g.Rules {
				names = append(names, r.Alert)
				if strings.Contains(r.Expr, "gridmesh_controller_") || strings.Contains(r.Expr, "gridmesh_grid_") || strings.Contains(r.Expr, `job="gridmesh-controller"`) {
					asks = append(asks, r)
				}
			}
		}
		return names, asks
	}
	all, asks := rules(build("../deploy/monitoring"))
	left, still := rules(build("../deploy/monitoring, ../deploy/monitoring/no-controller"))
	for _, r := range still {
		t.Errorf("%s asks for what nobody shows: %s", r.Alert, r.Expr)
	}
	for _, r := range asks {
		all = slices.DeleteFunc(all, func(name string) bool { return name == r.Alert && name != "GridmeshNotScraped" })
	}
	if len(asks) < 4 || !slices.Equal(left, all) {
		t.Errorf("left are %q, not %q", left, all)
	}
	for page, heading := range map[string]string{"docs/install.md": "Prepare", "docs/alerts.md": "GridmeshNotScraped"} {
		if !strings.Contains(section(t, page, heading), "deploy/monitoring/no-controller") {
			t.Errorf("%s, %q, does not tell of the component", page, heading)
		}
	}
	if !strings.Contains(section(t, "docs/alerts.md", "GridmeshControllerWithoutLeader"), "deploy/monitoring/no-controller") {
		t.Error("GridmeshControllerWithoutLeader does not tell of the component")
	}
}

// A grid that is invalid is told, once: not beside the alert about units in which it is
// refused, which are why it is invalid then.
func TestInvalidGridsAreTold(t *testing.T) {
	for _, g := range find(t, decode(t, read(t, "deploy/monitoring/rules.yaml")), "PrometheusRule", "gridmesh").Spec.Groups {
		for _, r := range g.Rules {
			if !strings.Contains(r.Expr, `gridmesh_grid_state{state="invalid"}`) {
				continue
			}
			if want := `gridmesh_grid_state{state="invalid"} > 0 unless on (kind, namespace, name) gridmesh_grid_units{state="refused"} > 0`; r.Expr != want || r.For != "15m" || g.Name != "gridmesh-grids" {
				t.Errorf("%s of %s: %s for %s", r.Alert, g.Name, r.Expr, r.For)
			}
			for _, label := range []string{"kind", "namespace", "name"} {
				if !strings.Contains(r.Annotations["summary"], "$labels."+label) {
					t.Errorf("%s does not name the grid's %s: %s", r.Alert, label, r.Annotations["summary"])
				}
			}
			return
		}
	}
	t.Error("no alert asks for grids that are invalid")
}
