package plan

import (
	"strings"
	"testing"
)

// Every mistake of a rollout is named at once, and a unit that its order names twice.
func TestMistakesOfARolloutAreNamedTogether(t *testing.T) {
	g := decodeGrid(parse(t, `{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: d}, spec: {gridUniqKey: site, template: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}}},
		rollout: {order: [a, b, a, a], maxUnits: 0, pauseSeconds: -5, progressDeadlineSeconds: 0, maxFailedUnits: -1}}}`))
	var fields []string
	for _, p := range g.problems {
		fields = append(fields, strings.TrimPrefix(p.Field, "spec.rollout."))
	}
	if want := "order maxUnits pauseSeconds progressDeadlineSeconds maxFailedUnits"; strings.Join(fields, " ") != want {
		t.Errorf("problems of %q, want %q", fields, want)
	}
	if len(g.problems) > 0 && !strings.HasPrefix(g.problems[0].Text, "names unit a more than once") {
		t.Errorf("of the order: %s", g.problems[0].Text)
	}
}
