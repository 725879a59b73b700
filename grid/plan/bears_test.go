package plan

import "testing"

// What is known of children that an earlier version of the controller applied is that hash.
func TestTheHashOfWhatIsAppliedStaysAsItIs(t *testing.T) {
	g := decodeGrid(parse(t, `{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: till, uid: u, labels: {team: shops}}, spec: {gridUniqKey: site,
		template: {replicas: 2, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}}}}}`))
	if d := g.desired(g.templates["default"], "a", "till-a", nil); d.hash != "39c9c6011ea81759" {
		t.Errorf("it is %s: no child that is there is known again", d.hash)
	}
}
