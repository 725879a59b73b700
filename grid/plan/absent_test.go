package plan

import (
	"strings"
	"testing"
	"time"
)

// Children that go by several keys say their own each, and the grid names all of them.
func TestAChildThatStaysNamesItsOwnKey(t *testing.T) {
	var w World
	w.Add(parse(t, `{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {room: x}}}`))
	w.Add(parse(t, `{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: d, uid: u}, spec: {gridUniqKey: stie, template: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}}}}}`))
	for unit, key := range map[string]string{"a": "room", "b": "site"} {
		w.Add(parse(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d-`+unit+`, labels: {superedge.io/grid-selector: d, superedge.io/grid-uniq-key: `+key+`}, annotations: {gridmesh.io/unit: `+unit+`, gridmesh.io/unit-key: `+key+`, gridmesh.io/applied: x},
			ownerReferences: [{apiVersion: superedge.io/v1, kind: DeploymentGrid, name: d, uid: u, controller: true}]}}`))
	}
	p := All(w, DefaultGuard(), time.Time{})[0]
	var whys []string
	for _, s := range p.Steps {
		whys = append(whys, s.Unit+" goes by "+strings.TrimSuffix(strings.Fields(strings.TrimPrefix(s.Why, "it goes by "))[0], ","))
	}
	if got := strings.Join(whys, ", "); got != "a goes by room, b goes by site" {
		t.Errorf("the children say: %s", got)
	}
	if len(p.Problems) != 1 || !strings.Contains(p.Problems[0].Text, "which go by room and site, for no node has the label stie") {
		t.Errorf("the grid says: %v", p.Problems)
	}
}
