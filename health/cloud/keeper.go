package cloud

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/health/shield"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/quiet"
	"github.com/gridmesh/gridmesh/kube/typed"
)

// Config is how a Keeper works.
type Config struct {
	UnitKey string // the label of Nodes whose value is their unit
	Shield  shield.Config
	// Expiry is for how long an entry of the list counts, and Renew how often it is written
	// anew: who keeps it may be away for the difference.
	Expiry, Renew time.Duration
	// Every is how often all nodes are looked at, and Mend how often the pods of a lost one.
	Every, Mend time.Duration
	// Grace is how long Kubernetes itself has for the taint of a node that is voted dead.
	Grace time.Duration
	Log   *slog.Logger
}

// Default needs a UnitKey and a Log.
func Default() Config {
	return Config{
		Shield: shield.Default(), Expiry: 5 * time.Minute, Renew: time.Minute,
		Every: time.Second, Mend: 30 * time.Second, Grace: 10 * time.Second,
	}
}

// Validate reports all that is wrong.
func (c *Config) Validate() error {
	errs := []error{c.Shield.Validate()}
	if c.UnitKey == "" {
		errs = append(errs, errors.New("the label of units is empty"))
	}
	if c.Every <= 0 || c.Mend < c.Every || c.Renew < c.Every {
		errs = append(errs, fmt.Errorf("nodes are looked at every %s, their pods every %s, the list is written every %s: must be positive, and the first the least", c.Every, c.Mend, c.Renew))
	}
	if c.Expiry < 2*c.Renew {
		errs = append(errs, fmt.Errorf("an entry counts for %s and is renewed every %s: twice that is the least", c.Expiry, c.Renew))
	}
	return errors.Join(errs...)
}

// Cluster is what a Keeper does to a cluster.
type Cluster interface {
	// WriteList replaces the list of shielded nodes: name -> until when.
	WriteList(ctx context.Context, data map[string]string) error
	// WriteUnits replaces the table of units: the name of each node in one -> its unit.
	WriteUnits(ctx context.Context, table map[string]string) error
	// PodsOn are the pods of a node as they are now.
	PodsOn(ctx context.Context, node string, each func(*corev1.Pod) error) error
	// SetReady writes a pod's condition Ready, if nobody wrote the pod since.
	SetReady(ctx context.Context, pod *corev1.Pod, ready corev1.PodCondition) error
	// EditTaints writes what edit makes of the taints that a Node has now.
	EditTaints(ctx context.Context, node, uid string, edit func([]corev1.Taint) []corev1.Taint) error
	// Event tells of a node.
	Event(node, uid, kind, reason, text string)
}

// patience is for one node's pods, and for a write: what takes longer is tried again.
const patience = 30 * time.Second

// parallel is of how many nodes the pods are looked at at once, as the controller manager does.
const parallel = 8

// Keeper keeps the shield. One goroutine owns it, but for what mends pods.
type Keeper struct {
	cfg     Config
	cluster Cluster
	metrics *Metrics
	world   *world
	begun   time.Time
	budget  shield.Budget

	units   units
	listed  map[string]bool // as it was last written, or found
	absent  bool            // there is none yet, and newer API servers ask for it at each write that they look at
	written time.Time
	failed  time.Time // the last write did
	full    quiet.Line
	said    map[string]shield.Action
	evicts  map[string]time.Time // since when a node is voted dead and lost
	tainted map[string]bool      // by us
	mended  map[string]time.Time // when a lost node's pods were last looked at

	room chan struct{}
	work sync.WaitGroup
}

// New begins with what an earlier one left on the list.
func New(cfg Config, c Cluster, m *Metrics, listed []string, now time.Time) *Keeper {
	k := &Keeper{
		cfg: cfg, cluster: c, metrics: m, world: newWorld(), begun: now,
		listed: map[string]bool{}, said: map[string]shield.Action{}, evicts: map[string]time.Time{}, tainted: map[string]bool{}, mended: map[string]time.Time{},
		room: make(chan struct{}, parallel),
	}
	for _, name := range listed {
		k.listed[name] = true
	}
	return k
}

// step does what is due now: the units to which votes are held come before these count.
func (k *Keeper) step(ctx context.Context, now time.Time) {
	if k.keepUnits(ctx, now); k.counted(now) {
		k.look(ctx, now)
	}
}

// decide is what is to become of a node. While it cannot be known yet whether a unit is
// dark nobody is given up, and who was kept before is.
func (k *Keeper) decide(now time.Time, name string) (shield.Action, string) {
	action, why := k.world.decide(now, k.cfg.Shield, name)
	switch young := now.Sub(k.begun) <= k.cfg.Shield.Silent; {
	case !young || action.Keeps():
		return action, why
	case k.listed[name]:
		return shield.Hold, "it was shielded, and the controller has just begun to look"
	default:
		return shield.Nothing, "the controller has just begun to look"
	}
}

// look decides about all nodes, and does what follows.
func (k *Keeper) look(ctx context.Context, now time.Time) {
	keep, counts := map[string]bool{}, map[shield.Action]int{}
	given := map[string]int{} // by unit: how many are tainted by us
	for name := range k.tainted {
		if s := k.world.nodes[name]; s != nil {
			given[s.unit]++
		}
	}
	released := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(k.world.nodes)) {
		s := k.world.nodes[name]
		action, why := k.decide(now, name)
		counts[action]++
		k.tell(name, s, action, why)
		if action.Keeps() {
			keep[name] = true
		}
		k.taints(ctx, now, name, s, action, given)
		switch {
		case !s.lost():
			delete(k.mended, name)
		case action.Keeps():
			k.mend(ctx, now, name, readyAgain)
		case action == shield.Evict || k.listed[name]:
			released[name] = true
			k.mend(ctx, now, name, notReady)
		}
	}
	k.forget()
	k.metrics.set(counts)
	k.write(ctx, now, keep, released)
}

// forget forgets what is gone.
func (k *Keeper) forget() {
	gone := func(name string) bool { return k.world.nodes[name] == nil }
	maps.DeleteFunc(k.said, func(name string, _ shield.Action) bool { return gone(name) })
	maps.DeleteFunc(k.evicts, func(name string, _ time.Time) bool { return gone(name) })
	maps.DeleteFunc(k.tainted, func(name string, _ bool) bool { return gone(name) })
	maps.DeleteFunc(k.mended, func(name string, _ time.Time) bool { return gone(name) })
}

// write writes the list where another one is due.
func (k *Keeper) write(ctx context.Context, now time.Time, keep, released map[string]bool) {
	data := k.list(now, keep)
	due := k.absent || !maps.Equal(keep, k.listed) || len(keep) > 0 && now.Sub(k.written) >= k.cfg.Renew
	if !due || now.Sub(k.failed) < 5*k.cfg.Every {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := k.cluster.WriteList(ctx, data)
	k.metrics.wrote("list", err)
	if err != nil {
		k.failed = now
		k.cfg.Log.Warn("the list of shielded nodes was not written; it is tried again", obs.KeyErr, err)
		return
	}
	for name := range released { // its pods are looked at once more, though it is on no list
		delete(k.mended, name)
	}
	k.listed, k.absent, k.written, k.failed = keep, false, now, time.Time{}
}

// list is the list of those that are kept. Who finds no room is taken out of keep.
func (k *Keeper) list(now time.Time, keep map[string]bool) map[string]string {
	data, most, left := make(map[string]string, len(keep)), typed.MostTable, 0
	until := now.Add(k.cfg.Expiry).UTC().Format(time.RFC3339)
	for _, name := range slices.Sorted(maps.Keys(keep)) {
		if most -= typed.TableRow(name, until); most < 0 {
			delete(keep, name)
			left++
			continue
		}
		data[name] = until
	}
	if left > 0 {
		k.full.Say(k.cfg.Log.Error, "the list of shielded nodes is full: the pods of the others go", obs.KeyMembers, left)
	}
	return data
}
