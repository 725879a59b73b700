package cloud

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/kube/typed"
)

// clusterTwin is a cluster in memory. What the test itself looks at it looks at while nothing
// is under way.
type clusterTwin struct {
	list    map[string]string
	writes  int
	table   map[string]string
	tables  int // writes of that
	pods    map[string][]*corev1.Pod
	events  []string
	broken  bool  // for the list and the table
	noTable bool  // for the table
	stuck   bool  // for taints: nobody answers
	heard   bool  // nodes are ready, which was not told yet
	fault   error // of the next write of a pod

	mu      sync.Mutex
	taints  map[string][]corev1.Taint
	evicted []string // pods
	asked   map[typed.Freshness]int
}

var errBroken = errors.New("broken")

func (c *clusterTwin) WriteList(_ context.Context, data map[string]string) error {
	if c.broken {
		return errBroken
	}
	c.list, c.writes = data, c.writes+1
	return nil
}

func (c *clusterTwin) WriteUnits(_ context.Context, table map[string]string) error {
	if c.broken || c.noTable {
		return errBroken
	}
	c.table, c.tables = table, c.tables+1
	return nil
}

func (c *clusterTwin) PodsOn(_ context.Context, node string, f typed.Freshness, each func(*corev1.Pod) error) error {
	c.mu.Lock()
	c.asked[f]++
	c.mu.Unlock()
	for _, p := range c.pods[node] {
		if err := each(p); err != nil {
			return err
		}
	}
	return nil
}

func (c *clusterTwin) SetReady(_ context.Context, pod *corev1.Pod, ready corev1.PodCondition) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.fault; err != nil {
		c.fault = nil
		return err
	}
	*condition(pod, corev1.PodReady) = ready
	return nil
}

func (c *clusterTwin) Evict(_ context.Context, pod *corev1.Pod) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evicted = append(c.evicted, pod.Name)
	at := metav1.Now()
	pod.DeletionTimestamp = &at
	return nil
}

func (c *clusterTwin) EditTaints(ctx context.Context, node, _ string, edit func(*corev1.Node) []corev1.Taint) error {
	if c.stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := &corev1.Node{Spec: corev1.NodeSpec{Taints: c.taints[node]}}
	if !c.heard {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	} else {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	c.taints[node] = edit(n)
	return nil
}

func (c *clusterTwin) Event(node, _, _, reason, _ string) {
	c.events = append(c.events, node+" "+reason)
}

// rig is a keeper of a unit of three nodes, and a clock.
type rig struct {
	*Keeper
	t   *testing.T
	on  *clusterTwin
	now time.Time
	n   map[string]node
	of  map[string]renewal // the Lease of each unit
}

func newRig(t *testing.T, listed ...string) *rig {
	t.Helper()
	cfg := Default()
	cfg.UnitKey, cfg.Log = "unit", slog.New(slog.DiscardHandler)
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, on: &clusterTwin{pods: map[string][]*corev1.Pod{}, taints: map[string][]corev1.Taint{}, asked: map[typed.Freshness]int{}}, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), n: map[string]node{}, of: map[string]renewal{}}
	r.Keeper = New(cfg, r.on, NewMetrics(prometheus.NewRegistry()), listed, r.now)
	for _, name := range []string{"a-1", "a-2", "a-3"} {
		r.set(name, node{uid: name, unit: "a", ready: corev1.ConditionTrue, verdict: "true", evidence: "yes=3 no=0 of=3"})
	}
	r.renew()
	return r
}

// restart is a controller that begins, with the cluster as another one left it.
func (r *rig) restart() *rig {
	r.t.Helper()
	next := newRig(r.t, slices.Sorted(maps.Keys(r.on.list))...)
	next.on, next.now, next.n = r.on, r.now, map[string]node{}
	next.Keeper = New(next.cfg, next.on, next.metrics, slices.Sorted(maps.Keys(r.on.list)), next.now)
	for name, n := range r.n {
		next.set(name, n)
	}
	for unit, lease := range r.of {
		next.of[unit] = lease
		next.world.setLease(next.now, unit, lease, false)
	}
	return next
}

func (r *rig) set(name string, n node) {
	r.n[name] = n
	r.world.setNode(r.now, name, n, false)
}

// lose has the cloud take a node for lost, as the controller manager does: its pods are
// marked, unless the list has the node.
func (r *rig) lose(names ...string) {
	for _, name := range names {
		n := r.n[name]
		n.ready, n.since = corev1.ConditionUnknown, r.now
		r.set(name, n)
	}
}

// say has who holds the Lease write a verdict, where that says nothing else.
func (r *rig) say(name, verdict, evidence string) {
	n := r.n[name]
	if !strings.Contains(evidence, " by=") {
		evidence += " by=" + n.unit + "-1"
	}
	if !strings.Contains(evidence, " at=") {
		evidence += " at=" + r.now.Format(time.RFC3339)
	}
	n.verdict, n.evidence, n.voted = verdict, evidence, r.now
	r.set(name, n)
}

func (r *rig) renew() { r.renewOf("a") }

func (r *rig) renewOf(unit string) {
	r.of[unit] = renewal{mark: r.now.String(), taken: r.now, holder: unit + "-1"}
	r.world.setLease(r.now, unit, r.of[unit], false)
}

// pass has time go by, of which each second is looked at; the unit's Lease is renewed where
// it has an uplink.
func (r *rig) pass(d time.Duration, uplink bool) {
	r.t.Helper()
	for range int(d / time.Second) {
		r.now = r.now.Add(time.Second)
		if uplink {
			r.renew()
		}
		for name, list := range r.on.taints {
			n := r.n[name]
			n.taints = list
			r.set(name, n)
		}
		r.look(r.t.Context(), r.now)
		r.work.Wait()
	}
}

func (r *rig) listedAre(when string, want ...string) {
	r.t.Helper()
	if got := slices.Sorted(maps.Keys(r.on.list)); !slices.Equal(got, want) {
		r.t.Errorf("%s: %v are on the list, want %v", when, got, want)
	}
}

func pod(name string, ready, containers corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: ready}, {Type: corev1.ContainersReady, Status: containers},
	}}}
}

func readies(list []*corev1.Pod) (text string) {
	for _, p := range list {
		text += fmt.Sprint(p.Name, "=", condition(p, corev1.PodReady).Status, " ")
	}
	return text
}

// A node that lost its uplink is on the list before the cloud misses it; what was marked all
// the same is ready again, and what its kubelet called not ready is not.
func TestUplinkOfOneNode(t *testing.T) {
	r := newRig(t)
	r.pass(40*time.Second, true)
	r.listedAre("all are well")
	r.say("a-2", "true", "yes=3 no=0 of=3 exact=true cut=true")
	r.pass(2*time.Second, true)
	r.listedAre("it says that it is cut", "a-2")
	r.on.pods["a-2"] = []*corev1.Pod{pod("marked", "False", "True"), pod("broken", "False", "False"), pod("well", "True", "True")}
	r.lose("a-2")
	r.pass(time.Second, true)
	if got := readies(r.on.pods["a-2"]); got != "marked=True broken=False well=True " {
		t.Error(got)
	}
	n := r.n["a-2"]
	n.ready = corev1.ConditionTrue
	r.set("a-2", n)
	r.say("a-2", "true", "yes=3 no=0 of=3 exact=true cut=false")
	r.pass(10*time.Second, true)
	r.listedAre("it is back")
	if want := []string{"a-2 NodeShielded", "a-2 NodeReleased"}; !slices.Equal(r.on.events, want) {
		t.Errorf("events %v, want %v", r.on.events, want)
	}
}

// A unit without uplink is held as long as that lasts, and what the list says never ends.
func TestUplinkOfAUnit(t *testing.T) {
	r := newRig(t)
	r.pass(40*time.Second, true)
	r.say("a-3", "false", "yes=0 no=2 of=3 exact=true") // it died just before
	r.pass(31*time.Second, false)
	r.listedAre("its Lease is silent", "a-1", "a-2", "a-3")
	r.lose("a-1", "a-2", "a-3")
	for range 60 {
		r.pass(time.Minute, false)
		for name, until := range r.on.list {
			if at, err := time.Parse(time.RFC3339, until); err != nil || at.Sub(r.now) < 2*time.Minute {
				t.Fatalf("%s is kept until %s, and it is %s: %v", name, until, r.now, err)
			}
		}
	}
	r.listedAre("an hour later", "a-1", "a-2", "a-3")
	if len(r.on.taints["a-3"]) > 0 { // unseen for a moment, while the cloud heard it
		t.Errorf("taints %v", r.on.taints)
	}
	if r.on.writes > 70 {
		t.Errorf("%d writes of the list in an hour", r.on.writes)
	}
}

// A node that is voted dead is given up though the controller manager's queue is busy: its
// pods are marked and it is tainted.
func TestDeath(t *testing.T) {
	r := newRig(t)
	r.pass(40*time.Second, true)
	r.say("a-2", "true", "yes=3 no=0 of=3 cut=true")
	r.pass(2*time.Second, true)
	r.on.pods["a-2"] = []*corev1.Pod{pod("kept", "True", "True")}
	r.lose("a-2")
	r.pass(time.Minute, true)
	r.say("a-2", "false", "yes=0 no=2 of=3 exact=true")
	r.pass(9*time.Second, true)
	r.listedAre("it is voted dead")
	if got := readies(r.on.pods["a-2"]); got != "kept=False " {
		t.Error(got)
	}
	if find(r.on.taints["a-2"], evicting) >= 0 {
		t.Error("the controller manager had no time for its own taint")
	}
	r.pass(10*time.Second, true)
	if find(r.on.taints["a-2"], evicting) < 0 {
		t.Error("it is not tainted")
	}
}

// Who begins to look keeps who was kept, and gives up nobody, until it knows whether units
// are dark.
func TestBegin(t *testing.T) {
	r := newRig(t, "a-1", "gone")
	r.lose("a-1", "a-2")
	r.say("a-1", "false", "yes=0 no=2 of=3 exact=true")
	r.say("a-2", "false", "yes=0 no=2 of=3 exact=true")
	r.pass(30*time.Second, true)
	r.listedAre("it has just begun", "a-1", "gone")
	if len(r.on.taints) > 0 {
		t.Errorf("taints %v", r.on.taints)
	}
	r.pass(10*time.Second, true)
	r.listedAre("it knows who is dead", "gone")
	r.pass(25*time.Second, true)
	r.listedAre("and that one is not there")
}

// A node that its peers alone do not see gets nothing new, until they do.
func TestUnseen(t *testing.T) {
	r := newRig(t)
	r.pass(40*time.Second, true)
	r.say("a-2", "false", "yes=0 no=2 of=3 exact=true")
	r.pass(2*time.Second, true)
	if find(r.on.taints["a-2"], unseen) < 0 || find(r.on.taints["a-2"], evicting) >= 0 {
		t.Errorf("taints %v", r.on.taints)
	}
	r.say("a-2", "true", "yes=3 no=0 of=3 exact=true")
	r.pass(2*time.Second, true)
	if len(r.on.taints["a-2"]) > 0 {
		t.Errorf("taints %v", r.on.taints)
	}
	if want := []string{"a-2 NodeUnseenByUnit"}; !slices.Equal(r.on.events, want) {
		t.Errorf("events %v, want %v", r.on.events, want)
	}
}

// A list that cannot be written is tried again, and who was to be on it is, once it can.
func TestTheListIsWrittenAgain(t *testing.T) {
	r := newRig(t)
	r.pass(40*time.Second, true)
	r.on.broken = true
	r.say("a-2", "true", "yes=3 no=0 of=3 cut=true")
	r.pass(20*time.Second, true)
	r.on.broken = false
	r.pass(5*time.Second, true)
	r.listedAre("it can be written", "a-2")
}

// Where votes ended while nodes are heard nobody is kept: the daemons are gone, not the uplink.
func TestVotesThatEnd(t *testing.T) {
	r := newRig(t)
	r.pass(40*time.Second, true)
	r.pass(60*time.Second, false)
	r.listedAre("the Lease is silent", "a-1", "a-2", "a-3")
	r.pass(70*time.Second, false)
	r.listedAre("and the cloud hears the unit")
}
