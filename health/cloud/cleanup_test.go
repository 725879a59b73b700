package cloud

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/api/names"
)

// ruin is a cluster of which node health was taken away.
type ruin struct {
	*clusterTwin
	nodes  []*corev1.Node
	leases map[string]coordinationv1.Lease
}

func (r *ruin) Leases(context.Context) (list []coordinationv1.Lease, err error) {
	for _, l := range r.leases {
		list = append(list, l)
	}
	return list, nil
}

func (r *ruin) TakeList(context.Context) (list []string, err error) {
	if r.broken {
		return nil, errBroken
	}
	for name := range r.list {
		list = append(list, name)
	}
	r.list = nil
	return list, nil
}

func (r *ruin) EachNode(_ context.Context, each func(*corev1.Node) error) error {
	for _, n := range r.nodes {
		n.Spec.Taints = r.taints[n.Name]
		if err := each(n); err != nil {
			return err
		}
	}
	return nil
}

func (r *ruin) Annotate(_ context.Context, node, _ string, annotations map[string]*string) error {
	for _, n := range r.nodes {
		for key, value := range annotations {
			if n.Name == node && value == nil {
				delete(n.Annotations, key)
			}
		}
	}
	return nil
}

func (r *ruin) DeleteLease(_ context.Context, l *coordinationv1.Lease) error {
	delete(r.leases, l.Name)
	return nil
}

// ruined is one of three nodes: a-1 is heard and said to be unseen, a-2 is lost and kept, a-3 is
// SuperEdge's.
func ruined(t *testing.T, now time.Time) *ruin {
	t.Helper()
	on := newRig(t).on
	on.list = map[string]string{"a-2": "soon"}
	on.taints["a-1"] = []corev1.Taint{unseen, {Key: "other"}}
	on.taints["a-2"] = []corev1.Taint{evicting}
	for _, name := range []string{"a-1", "a-2"} {
		on.pods[name] = []*corev1.Pod{pod("web", "True", "True")}
	}
	r := &ruin{clusterTwin: on, leases: map[string]coordinationv1.Lease{}}
	for name, ready := range map[string]corev1.ConditionStatus{"a-1": "True", "a-2": "Unknown", "a-3": "True"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{names.NodeHealth: "true", "other": "stays"}}}
		if n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}; name != "a-3" {
			n.Annotations[names.Evidence] = "yes=3 no=0 of=3"
		}
		r.nodes = append(r.nodes, n)
	}
	renewed := metav1.NewMicroTime(now.Add(-time.Minute))
	r.leases["edge-health-a"] = coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "edge-health-a", Labels: map[string]string{names.UnitLease: "a"}}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
	return r
}

// A cluster is left as if there had been no node health, and what is others' stays.
func TestClean(t *testing.T) {
	now := time.Now()
	r := ruined(t, now)
	done, err := Clean(t.Context(), now, r)
	if want := (Cleaned{Listed: 1, Annotated: 2, Untainted: 1, Marked: 1, Leases: 1}); err != nil || done != want {
		t.Errorf("%+v, %v; want %+v", done, err, want)
	}
	for _, n := range r.nodes {
		_, verdict := n.Annotations[names.NodeHealth]
		if _, proof := n.Annotations[names.Evidence]; proof || verdict != (n.Name == "a-3") || n.Annotations["other"] == "" {
			t.Errorf("%s has %v", n.Name, n.Annotations)
		}
	}
	if find(r.taints["a-1"], unseen) >= 0 || len(r.taints["a-1"]) != 1 || len(r.taints["a-2"]) != 1 {
		t.Errorf("taints %v", r.taints)
	}
	if len(r.leases) > 0 || r.list != nil || readies(r.pods["a-1"])+readies(r.pods["a-2"]) != "web=True web=False " {
		t.Errorf("leases %v, list %v, pods %s, %s", r.leases, r.list, readies(r.pods["a-1"]), readies(r.pods["a-2"]))
	}
	if done, err = Clean(t.Context(), now, r); err != nil || done != (Cleaned{}) {
		t.Errorf("again: %+v, %v", done, err)
	}
}

// What could not be marked is, when it is done again: the list is gone by then.
func TestCleanAgain(t *testing.T) {
	now := time.Now()
	r := ruined(t, now)
	r.fault = errBroken
	if done, err := Clean(t.Context(), now, r); !errors.Is(err, errBroken) || done.Marked > 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if done, err := Clean(t.Context(), now, r); err != nil || done.Marked != 1 || readies(r.pods["a-2"]) != "web=False " || readies(r.pods["a-1"]) != "web=True " {
		t.Errorf("%+v, %v: %s", done, err, readies(r.pods["a-2"]))
	}
}

// What is at work is not taken away, and where the list stays all does.
func TestCleanRefuses(t *testing.T) {
	now := time.Now()
	r := ruined(t, now)
	if _, err := Clean(t.Context(), now.Add(-50*time.Second), r); !errors.Is(err, ErrVoting) || !strings.Contains(err.Error(), "(a): delete the DaemonSet") {
		t.Error(err)
	}
	r.broken = true
	if _, err := Clean(t.Context(), now, r); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	if len(r.leases) != 1 || r.list == nil || len(r.taints["a-1"]) != 2 {
		t.Errorf("leases %v, list %v, taints %v", r.leases, r.list, r.taints)
	}
}
