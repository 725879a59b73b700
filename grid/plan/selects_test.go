package plan

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/topology"
)

// A ServiceGrid whose selector no grid's pods have the labels of, or whose targetPort no
// container of theirs names, is told, with what may be meant. Other workloads that are known
// count, and so may those that are not.
func TestServiceGridThatAnswersNobody(t *testing.T) {
	const beside = `
apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: till, namespace: default}, spec: {gridUniqKey: site, template: {selector: {matchLabels: {app: till}}, template: {metadata: {labels: {app: till, tier: front}}, spec: {initContainers: [{name: once, ports: [{name: early, containerPort: 1}]}, {name: side, restartPolicy: Always, ports: [{name: admin, containerPort: 2}]}], containers: [{name: c, ports: [{name: http, containerPort: 80}, {name: dns, containerPort: 53, protocol: UDP}]}]}}}}
apiVersion: superedge.io/v1, kind: StatefulSetGrid, metadata: {name: shop, namespace: default}, spec: {gridUniqKey: site, template: {selector: {matchLabels: {app: shop}}, template: {metadata: {labels: {app: shop}}}}, templatePool: {v2: {selector: {matchLabels: {app: shop}}, template: {metadata: {labels: {app: shop, version: v2}}}}}}
apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: far, namespace: other}, spec: {gridUniqKey: site, template: {selector: {matchLabels: {app: far}}, template: {metadata: {labels: {app: far}}}}}
apiVersion: apps/v1, kind: Deployment, metadata: {name: plain, namespace: default}, spec: {template: {metadata: {labels: {app: plain}}}}
apiVersion: apps/v1, kind: Deployment, metadata: {name: till-north, namespace: default, labels: {superedge.io/grid-selector: till, superedge.io/grid-uniq-key: site}}, spec: {template: {metadata: {labels: {app: before}}}}
`
	const none = ", and no grid's pods of namespace default have such labels: unless pods of others have them, the Service refuses every client; "
	const selector, port = "spec.template.selector: ", "spec.template.ports[0].targetPort: "
	for template, want := range map[string]string{
		`selector: {app: till}, ports: [{port: 80}]`:                                "",
		`selector: {app: till, tier: front}, ports: [{port: 80, targetPort: 8080}]`: "",
		`selector: {app: shop, version: v2}, ports: [{port: 80}]`:                   "", // of some units
		`selector: {app: plain}, ports: [{port: 80}]`:                               "", // which is no grid's
		`ports: [{port: 80}]`: "", // its endpoints are somebody's own
		`type: ExternalName, externalName: a.example, selector: {app: a}`:                         "",
		`selector: {app: shop, statefulset.kubernetes.io/pod-name: shop-a-0}, ports: [{port: 1}]`: "",
		`selector: {app: till, pod-template-hash: abc}, ports: [{port: 80}]`:                      "",
		`selector: {app: til}, ports: [{port: 80}]`:                                               selector + "selects app=til" + none + "did you mean app=till, as the pods of deploymentgrid default/till have?",
		`selector: {apps: shop}, ports: [{port: 80}]`:                                             selector + "selects apps=shop" + none + "did you mean app=shop, as the pods of statefulsetgrid default/shop have?",
		`selector: {app: till, tier: back}, ports: [{port: 80}]`:                                  selector + "selects app=till, tier=back" + none + "write labels that pods have: those of deploymentgrid default/till have app=till, tier=front",
		`selector: {name: x}, ports: [{port: 80}]`:                                                selector + "selects name=x" + none + "write labels that pods have: those of statefulsetgrid default/shop have app=shop", // which has its name
		`selector: {app: far}, ports: [{port: 80}]`:                                               selector + "selects app=far" + none,
		`selector: {app: before}, ports: [{port: 80}]`:                                            selector + "selects app=before" + none, // of a child that is to be changed

		`selector: {app: till}, ports: [{port: 80, targetPort: http}]`:                            "",
		`selector: {app: till}, ports: [{port: 80, targetPort: admin}]`:                           "", // of a sidecar
		`selector: {app: till}, ports: [{port: 53, protocol: UDP, targetPort: dns}]`:              "",
		`selector: {app: till}, ports: [{port: 80, targetPort: early}]`:                           port + "names port early, which no container of the pods that it selects has (deploymentgrid default/till): 80 of the Service refuses every client; write a name that one has (admin, http), or a number",
		`selector: {app: till}, ports: [{port: 80, targetPort: htpp}]`:                            port + "names port htpp, which no container of the pods that it selects has (deploymentgrid default/till): 80 of the Service refuses every client; did you mean http?",
		`selector: {app: till}, ports: [{port: 53, targetPort: dns}]`:                             port + "names port dns, which no container",
		`selector: {app: shop}, ports: [{port: 80, targetPort: http}]`:                            port + "names port http, which no container of the pods that it selects has (statefulsetgrid default/shop): 80 of the Service refuses every client; name a port of its containers so (TCP), or write its number",
		`selector: {app: till}, ports: [{name: a, port: 80}, {name: b, port: 81, targetPort: x}]`: "spec.template.ports[1].targetPort: names port x",
	} {
		var w World
		for _, text := range append(strings.Split(strings.TrimSpace(beside), "\n"), `apiVersion: superedge.io/v1, kind: ServiceGrid, metadata: {name: shop, namespace: default}, spec: {gridUniqKey: site, template: {`+template+`}}`) {
			w.Add(readYAML(t, text))
		}
		if got := textsOf(Unanswered(w, all)); want == "" && len(got) > 0 || !strings.HasPrefix(strings.Join(got, "\n"), want) || len(got) > 1 {
			t.Errorf("%s:\n%q, want %q", template, got, want)
		}
	}
}

// Whose pods a Service is for may not be here: of manifests without any grid's nothing is
// said; a cluster that has none has none.
func TestServiceGridWithoutGrids(t *testing.T) {
	w := World{Part: true}
	w.Add(readYAML(t, `apiVersion: superedge.io/v1, kind: ServiceGrid, metadata: {name: shop, namespace: default}, spec: {gridUniqKey: site, template: {selector: {app: shop}, ports: [{port: 80}]}}`))
	if got := textsOf(Unanswered(w, all)); len(got) > 0 {
		t.Errorf("of manifests: %q", got)
	}
	w.Part = false
	want := "spec.template.selector: selects app=shop, and no grid's pods of namespace default have such labels: unless pods of others have them, the Service refuses every client; there is no such grid at all: add it, or see that both are of one namespace"
	if got := textsOf(Unanswered(w, all)); len(got) != 1 || got[0] != want {
		t.Errorf("of a cluster: %q, want %q", got, want)
	}
}

func all(string) bool { return true }

// Templates are decoded where a Service is asked for that may select their pods, and nowhere else.
func TestTemplatesThatNoServiceSelects(t *testing.T) {
	var w World
	w.Add(readYAML(t, `apiVersion: superedge.io/v1, kind: ServiceGrid, metadata: {name: shop, namespace: default}, spec: {gridUniqKey: site, template: {selector: {app: shop}, ports: [{port: 80}]}}`))
	for i := range 100 {
		for _, namespace := range []string{"default", "other"} {
			w.Add(readYAML(t, fmt.Sprintf(`apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: a%d, namespace: %s}, spec: {gridUniqKey: site, template: {selector: {matchLabels: {app: shop}}, template: {metadata: {labels: {app: shop}}}}}`, i, namespace)))
		}
	}
	cost := func(asked func(string) bool) float64 {
		return testing.AllocsPerRun(3, func() { Unanswered(w, asked) }) - testing.AllocsPerRun(3, func() { indexOf(w) })
	}
	one, none := cost(all), cost(func(string) bool { return false })
	if one < 1000 || none > one/10 {
		t.Errorf("%.0f allocations for a Service beside 100 grids, %.0f for none", one, none)
	}
	if pods := indexOf(w).podTemplates(map[string]bool{"default": true}); len(pods["default"]) != 100 || len(pods) != 1 {
		t.Errorf("%d templates beside it, of %d namespaces", len(pods["default"]), len(pods))
	}
}

func readYAML(t *testing.T, text string) Object {
	t.Helper()
	obj := Object{}
	if err := yaml.Unmarshal([]byte("{"+text+"}"), &obj); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return obj
}

func textsOf(problems []topology.Problem) (list []string) {
	for _, p := range problems {
		list = append(list, p.Field+": "+p.Text)
	}
	return list
}
