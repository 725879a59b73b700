package cloud

import (
	"os"
	"regexp"
	"testing"

	"github.com/gridmesh/gridmesh/health/shield"
)

// Nodes that are kept for an hour are told, and go on to be, though another thing is done for them by
// then: a series for each would begin that hour anew.
func TestNodesThatAreKeptAreTold(t *testing.T) {
	rules, err := os.ReadFile("../../deploy/monitoring/health/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	actions := regexp.MustCompile(`alert: GridmeshNodesKept\s+expr: 'max\(sum without \(action\) \(gridmesh_health_nodes\{action=~"([^"]+)"\}\)\) > 0'`).FindSubmatch(rules)
	if actions == nil {
		t.Fatal("no alert asks for all of them as one")
	}
	for a := shield.Nothing; a <= shield.Evict; a++ {
		if told := regexp.MustCompile("^(?:" + string(actions[1]) + ")$").MatchString(a.String()); told != a.Keeps() {
			t.Errorf("%s is told: %v, and keeps: %v", a, told, a.Keeps())
		}
	}
}
