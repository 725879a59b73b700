package arch

import (
	"fmt"
	"slices"
	"strings"
)

// knowing are tests that look into rooms from elsewhere: package -> what it imports -> why.
var knowing = map[string]map[string]string{
	"convert":       {"source": "what convert makes must be what the state file keeps"},
	"kube":          {"test/cluster/wait": "it waits as tests of a cluster do"},
	"test/bench":    {"capture/plan": measured, "xds": measured, "xds/render": measured},
	"test/datapath": {"xds/admin": "what it reads of Envoy's admin interface is a real Envoy's there"},
	"test/kubernetes": {
		"grid": twin, "grid/plan": twin, "grid/gridtest": twin,
		"admission/mutate": sameDecision, "admission/mutate/mutatetest": sameDecision, "admission/policy": sameDecision,
		"health": "how a policy names a unit's Lease is held against how the daemons do",
	},
	"test/soak":       {"node/report": "it reads the status socket, whose format that is"},
	"test/soak/model": {"node/hold": "whom the model excuses is held against real holds"},
}

const (
	measured = "benchmarks measure it without a program around it"
	twin     = "the in-memory cluster of grid's tests is held against a real API server"

	sameDecision = "what the policies decide in a real API server is held against what the webhook decides"
)

// CheckTests returns the laws that the imports of a package's tests break, with the
// reason. Of a package below test all imports are tests'.
func CheckTests(pkg string, imports []string) []string {
	from := strings.TrimPrefix(pkg, Module+"/")
	room, layer, _ := find(from)
	var broken []string
	for _, path := range imports {
		to, ours := strings.CutPrefix(path, Module+"/")
		target, below, ok := find(to)
		switch _, knows := knowing[from][to]; {
		case !ours || !ok || knows:
		case layer == layerTest && layerFeed < below && below < layerTest:
			broken = append(broken, fmt.Sprintf("%s imports %s: tests across rooms start programs and speak with them in their formats, so that a room can be changed inside; "+
				"test what is inside in its own folder, or say in knowing (internal/arch/tests.go) why not", from, to))
		case layer != layerTest && room != target && below >= layer && !slices.Contains(sideways[room], target):
			broken = append(broken, fmt.Sprintf("a test of %s imports %s: a room is tested with what it may import itself, so that it can be changed alone; "+
				"what spans rooms is tested in node, cmd or test, or say in knowing (internal/arch/tests.go) why not", from, to))
		}
	}
	return broken
}
