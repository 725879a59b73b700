package cloud

import (
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/health/shield"
)

// A node that is kept for an hour is told, whatever is done for it by then. So are not many that are kept for
// minutes, one after the other: each of them was heard again.
func TestANodeThatIsKeptIsTold(t *testing.T) {
	rules, err := os.ReadFile("../../deploy/monitoring/health/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(rules), "alert: GridmeshNodesKept\n          expr: 'max(gridmesh_health_kept_seconds) > 3600'\n") {
		t.Fatal("no alert asks for how long one is kept")
	}
	most := func(r *rig) float64 { return r.gauge(r.metrics.kept) }
	r := newRig(t)
	r.pass(time.Minute, true)
	for i := range 20 {
		name, other := []string{"a-2", "a-3"}[i%2], []string{"a-3", "a-2"}[i%2]
		r.lose(name)
		r.say(name, "true", "yes=3 no=0 of=3 exact=true")
		r.pass(2*time.Minute, true)
		r.back(other)
		r.pass(2*time.Minute, true)
		if got := most(r); got > 300 || len(r.on.list) != 1 {
			t.Fatalf("after %d minutes %v are kept, one for %v s", 4*i, r.on.list, got)
		}
	}
	r.back("a-2")
	r.back("a-3")
	r.pass(2*time.Second, true)
	if got := most(r); got != 0 {
		t.Errorf("nobody is kept, and one is for %v s", got)
	}
	for _, name := range []string{"b-1", "b-2", "b-3"} { // or it was the cloud that is cut off
		r.set(name, node{uid: name, unit: "b", ready: corev1.ConditionTrue})
	}
	r.pass(time.Minute, false)
	r.lose("a-1", "a-2", "a-3")
	done := map[shield.Action]bool{}
	for range 70 {
		r.pass(time.Minute, false)
		done[r.said["a-2"]] = true
	}
	if got := most(r); got != 70*60 || !done[shield.Hold] || !done[shield.HoldBound] {
		t.Errorf("after 70 minutes of %v they are kept for %v s", done, got)
	}
	if r = r.restart(); r.n["a-2"].ready != corev1.ConditionUnknown {
		t.Fatal("it is heard")
	}
	r.pass(time.Second, false)
	if got := most(r); got != 70*60+1 {
		t.Errorf("another controller begins, and they are kept for %v s", got)
	}
}
