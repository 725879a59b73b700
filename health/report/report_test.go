package report

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/health/cloud"
	"github.com/gridmesh/gridmesh/health/evidence"
	"github.com/gridmesh/gridmesh/health/shield"
)

var base = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// What is reckoned with is what gridmesh-controller does.
func TestDefaultsAreTheControllers(t *testing.T) {
	own, theirs := Default(), cloud.Default()
	if own.Renew != theirs.Renew || own.Expiry != theirs.Expiry || own.Rules != theirs.Shield {
		t.Errorf("%+v, and the controller has %+v", own, theirs)
	}
}

// world is a unit of three, of which the third is lost.
type world struct {
	renewed, since, voted time.Time
	verdict               string
	cut                   bool
	alive                 bool // others
}

func (w world) state(now time.Time) *State {
	s := &State{Shield: &Shield{map[string]string{}}}
	holder, renewed := "a-1", metav1.NewMicroTime(w.renewed)
	if base.Sub(w.renewed) <= shield.Default().Silent { // it goes on to be renewed
		renewed = metav1.NewMicroTime(now)
	}
	s.Leases = []coordinationv1.Lease{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "gridmesh", Name: "edge-health-a", Labels: map[string]string{names.UnitLease: "a"}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed},
	}}
	for i := range 3 {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("a-", i+1), Labels: map[string]string{"unit": "a"}}}
		ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(base.Add(-24 * time.Hour))}
		if i == 2 || !w.alive {
			ready.Status, ready.LastTransitionTime = corev1.ConditionUnknown, metav1.NewTime(w.since)
		}
		if i == 2 && w.verdict != "" {
			e := evidence.Evidence{Yes: 2, Of: 3, Exact: true, Cut: w.cut, By: "a-1", At: w.voted}
			if w.verdict == "false" {
				e.Yes, e.No = 0, 2
			}
			n.Annotations = map[string]string{names.NodeHealth: w.verdict, names.Evidence: e.String()}
		}
		n.Status.Conditions = []corev1.NodeCondition{ready}
		s.Nodes = append(s.Nodes, n)
	}
	return s
}

func (w world) third(t *testing.T, cfg Config, now time.Time) Node {
	t.Helper()
	r, ok := Of(w.state(now), cfg, now).Node("a-3")
	if !ok {
		t.Fatal("a-3 is not in the report")
	}
	return r.Units[0].Nodes[0]
}

// What is said to be next is what is shown when that time has come, and not before.
func TestNextComesTrue(t *testing.T) {
	cfg := Default()
	cfg.UnitKey = "unit"
	r := rand.New(rand.NewPCG(1, 2))
	ago := func() time.Time { return base.Add(-time.Duration(r.IntN(900)) * time.Second) }
	came := map[string]int{}
	for range 6000 {
		w := world{renewed: ago(), since: ago(), voted: ago(), verdict: []string{"true", "true", "false", ""}[r.IntN(4)], cut: r.IntN(2) > 0, alive: r.IntN(3) > 0}
		if cfg.Rules.Autonomy = 0; r.IntN(2) > 0 {
			cfg.Rules.Autonomy = 10 * time.Minute
		}
		now := w.third(t, cfg, base)
		if now.Action != "shield" && now.Action != "hold" {
			continue
		}
		first := now.Next[0]
		if first.At == nil {
			if later := w.third(t, cfg, base.Add(24*time.Hour)); later.Action != now.Action {
				t.Fatalf("%+v: nothing was to change, and it is %s a day later", w, later.Action)
			}
			came["nothing"]++
			continue
		}
		before, after := w.third(t, cfg, *first.At), w.third(t, cfg, first.At.Add(time.Second))
		want, _, _ := strings.Cut(first.What, ", unless")
		var word string
		for action, is := range became {
			if action.String() == after.Action {
				word = is
			}
		}
		if before.Action != now.Action || word != want {
			t.Fatalf("%+v: %s, next %q; then %s, and after it %s", w, now.Action, first.What, before.Action, after.Action)
		}
		came[want]++
	}
	for _, want := range []string{"nothing", "it is held", "it is left to Kubernetes"} {
		if came[want] < 20 {
			t.Errorf("%q came %d times: %v", want, came[want], came)
		}
	}
}

// A taint that evicts says when.
func TestEvictionIsSaid(t *testing.T) {
	w := world{renewed: base, since: base.Add(-3 * time.Minute), voted: base.Add(-20 * time.Second), verdict: "false", alive: true}
	s := w.state(base)
	at := metav1.NewTime(base.Add(-2 * time.Minute))
	s.Nodes[2].Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute, TimeAdded: &at}}
	cfg := Default()
	cfg.UnitKey = "unit"
	r, _ := Of(s, cfg, base).Node("a-3")
	n := r.Units[0].Nodes[0]
	if len(n.Next) != 1 || n.Action != "evict" || !n.Next[0].At.Equal(base.Add(3*time.Minute)) {
		t.Errorf("%+v", n)
	}
}

func TestUnitKeys(t *testing.T) {
	node := func(name string, labels ...string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		for _, l := range labels {
			key, value, _ := strings.Cut(l, "=")
			n.Labels[key] = value
		}
		return n
	}
	lease := func(unit, holder string) coordinationv1.Lease {
		return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{names.UnitLease: unit}}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
	}
	for name, tt := range map[string]struct {
		state State
		want  []string
	}{
		"nothing":                     {State{}, nil},
		"no Lease":                    {State{Nodes: []corev1.Node{node("a-1", "unit=a")}}, nil},
		"no Lease, SuperEdge's label": {State{Nodes: []corev1.Node{node("a-1", "unit=a", names.HealthZone+"=a")}}, []string{names.HealthZone}},
		"one": {State{
			Nodes:  []corev1.Node{node("a-1", "unit=a", "rack=b"), node("b-1", "unit=b", "rack=a")},
			Leases: []coordinationv1.Lease{lease("a", "a-1"), lease("b", "")},
		}, []string{"unit"}},
		"of a unit that is gone": {State{
			Nodes: []corev1.Node{node("a-1", "unit=a")}, Leases: []coordinationv1.Lease{lease("a", "a-1"), lease("z", "z-1")},
		}, []string{"unit"}},
		"SuperEdge's first": {State{
			Nodes: []corev1.Node{node("a-1", "a=a", names.HealthZone+"=a")}, Leases: []coordinationv1.Lease{lease("a", "a-1")},
		}, []string{names.HealthZone, "a"}},
		"none fits": {State{Nodes: []corev1.Node{node("a-1", "unit=a")}, Leases: []coordinationv1.Lease{lease("b", "a-1")}}, nil},
	} {
		if got := tt.state.UnitKeys(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// Of many units and nodes those in trouble are named, and how many more there are.
func TestManyAreBounded(t *testing.T) {
	s := &State{Shield: &Shield{}}
	for i := range 300 {
		unit := fmt.Sprintf("u-%03d", i)
		holder, renewed := unit+"-1", metav1.NewMicroTime(base)
		s.Leases = append(s.Leases, coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: unit, Labels: map[string]string{names.UnitLease: unit}},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed},
		})
		for j := range 2 {
			status := corev1.ConditionTrue
			if i < 120 && j == 1 {
				status = corev1.ConditionFalse
			}
			s.Nodes = append(s.Nodes, corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", unit, j+1), Labels: map[string]string{"unit": unit}},
				Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}},
			})
		}
	}
	cfg := Default()
	cfg.UnitKey = "unit"
	var b strings.Builder
	r := Of(s, cfg, base)
	if err := r.WriteText(&b, Shown{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"and 180 more, which are ok (-o wide has them)", "and 20 more nodes that are not as they should be"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := r.WriteText(&b, Shown{All: true}); err != nil || strings.Count(b.String(), "\n") < 300+600 {
		t.Errorf("%v: not all are shown:\n%s", err, b.String())
	}
}

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 12400 * time.Millisecond: "12s", 190 * time.Second: "3m10s", 302 * time.Minute: "5h2m", 99 * time.Hour: "4d3h", -time.Minute: "-1m0s"} {
		if got := age(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
	if got := columns([][]string{{"A", "BC", "D"}, {"\x1b[2J", "é", "x\ny"}}); !reflect.DeepEqual(got, []string{"A     BC  D", "\uFFFD[2J  é   x\uFFFDy"}) {
		t.Errorf("%q", got)
	}
}
