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
	// Refused is for how long nobody is given up while either Nodes or Leases are not told,
	// and the others are: then they are no more to be waited for.
	Refused time.Duration
	// Fault is told why the API server does not tell of Nodes and Leases, or nil; it may be nil.
	Fault func(error)
	Log   *slog.Logger
}

// Default needs a UnitKey and a Log.
func Default() Config {
	return Config{
		Shield: shield.Default(), Expiry: 5 * time.Minute, Renew: time.Minute,
		Every: time.Second, Mend: 30 * time.Second, Grace: 10 * time.Second, Refused: 15 * time.Minute,
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
	if c.Refused < 0 {
		errs = append(errs, fmt.Errorf("nobody is given up for %s while it is not known how nodes are: must not be negative", c.Refused))
	}
	if c.Expiry < 2*c.Renew {
		errs = append(errs, fmt.Errorf("an entry counts for %s and is renewed every %s: twice that is the least", c.Expiry, c.Renew))
	}
	return errors.Join(errs...)
}

func (c *Config) tell(fault error) {
	if c.Fault != nil {
		c.Fault(fault)
	}
}

// Cluster is what a Keeper does to a cluster.
type Cluster interface {
	// WriteList replaces the list of shielded nodes: name -> until when.
	WriteList(ctx context.Context, data map[string]string) error
	// WriteUnits replaces the table of units: the name of each node in one -> its unit.
	WriteUnits(ctx context.Context, table map[string]string) error
	// PodsOn are the pods of a node.
	PodsOn(ctx context.Context, node string, f typed.Freshness, each func(*corev1.Pod) error) error
	// SetReady writes a pod's condition Ready, if nobody wrote the pod since.
	SetReady(ctx context.Context, pod *corev1.Pod, ready corev1.PodCondition) error
	// Evict has a pod go, as far as its disruption budgets let it; one that is gone is no error.
	Evict(ctx context.Context, pod *corev1.Pod) error
	// EditTaints writes what edit makes of the taints of a Node, as it is now.
	EditTaints(ctx context.Context, node, uid string, edit func(*corev1.Node) []corev1.Taint) error
	// Event tells of a node.
	Event(node, uid, kind, reason, text string)
}

// Keeper keeps the shield. One goroutine owns it, but for errands.
type Keeper struct {
	cfg     Config
	cluster Cluster
	metrics *Metrics
	world   *world
	begun   time.Time
	budget  shield.Budget

	units   units
	listed  map[string]bool // as it was last written, or found
	odd     bool            // it has others, or lacks some: old ones that ended, or by somebody's hand
	absent  bool            // there is none yet, and newer API servers ask for it at each write that they look at
	written time.Time
	until   time.Time // when the entries of that end
	failed  time.Time // the last write did
	full    quiet.Line
	said    map[string]shield.Action
	evicts  map[string]time.Time // since when a node is voted dead and lost
	tainted map[string]bool      // by us, or about to be
	unseen  map[string]bool      // to have our own taint
	// owed are lost nodes whose pods may not be marked as Kubernetes would have marked them,
	// and when they last were not to be: it marks them once, and does not come again.
	owed map[string]time.Time

	// parted are nodes of which pods go that are not bound to their unit, and parting how fast.
	parted  map[string]bool
	parting shield.Budget

	pods, taints *errands
	work         sync.WaitGroup
	told         quiet.Limit
	deaf         bool      // the API server does not answer
	partial      time.Time // since when it tells either of Nodes or of Leases; zero: of both, or of none, for a while
	other        time.Time // since when that is not so, after it was
	over         bool      // more nodes are unseen than may be
}

// New begins with what an earlier one left on the list.
func New(cfg Config, c Cluster, m *Metrics, listed []string, now time.Time) *Keeper {
	k := &Keeper{
		cfg: cfg, cluster: c, metrics: m, begun: now, until: now.Add(cfg.Expiry),
		listed: map[string]bool{}, said: map[string]shield.Action{}, evicts: map[string]time.Time{}, tainted: map[string]bool{}, unseen: map[string]bool{}, owed: map[string]time.Time{}, parted: map[string]bool{},
	}
	k.pods = newErrands("mend its pods", cfg.Mend, 5*cfg.Every, cfg.Log, &k.work)
	k.taints = newErrands("write its taints", 5*cfg.Every, 5*cfg.Every, cfg.Log, &k.work)
	for _, name := range listed {
		k.listed[name] = true
	}
	k.world = newWorld(cfg.Shield, maps.Clone(k.listed))
	return k
}

// hear notes why the API server does not tell of Nodes and Leases, or nil. Who does not hear it
// begins anew when it does: what it was not told in between may be of any age. While nothing is
// told nothing is written either, and that may last. Where one of the two is, it is no outage but
// a mistake, as in the rights of the controller, that may last for ever: not so who is kept by it.
func (k *Keeper) hear(now time.Time, nodes, leases error) {
	k.metrics.heard(nodes, leases)
	fault := errors.Join(nodes, leases)
	k.cfg.tell(fault)
	partial := (nodes == nil) != (leases == nil)
	switch {
	case partial && k.partial.IsZero():
		k.partial, k.other = now, time.Time{}
	case partial:
		k.other = time.Time{}
	case k.other.IsZero():
		k.other = now
	case now.Sub(k.other) > k.cfg.Shield.Silent:
		k.partial = time.Time{}
	}
	if fault != nil && (!partial || now.Sub(k.partial) <= k.cfg.Refused) {
		k.begun = now
	}
	was := k.deaf
	switch k.deaf = fault != nil; {
	case k.deaf && k.told.Allow(now, 1, quiet.Every):
		k.cfg.Log.Warn("it is not known how nodes are; who is shielded stays so, and nobody is given up", obs.KeyErr, fault)
	case was && !k.deaf:
		k.cfg.Log.Info("it is known again how nodes are")
		for name, s := range k.world.nodes {
			s.past.Kept = s.past.Kept || k.listed[name]
		}
	}
}

// young reports whether it cannot be known yet whether a unit is dark.
func (k *Keeper) young(now time.Time) bool { return now.Sub(k.begun) <= k.cfg.Shield.Silent }

// step does what is due now: the units to which votes are held come before these count.
func (k *Keeper) step(ctx context.Context, now time.Time) {
	if k.keepUnits(ctx, now); k.counted(now) {
		k.look(ctx, now)
	}
}

// decide is what is to become of a node. While it cannot be known yet whether a unit is
// dark nobody is given up, and who was kept before is.
func (k *Keeper) decide(now time.Time, name string) (shield.Action, string) {
	action, why := k.world.decide(now, name, k.begun)
	switch {
	case !k.young(now) || action.Keeps():
		return action, why
	case k.listed[name]:
		return shield.Hold, "it was shielded, and the controller has just begun to look"
	default:
		return shield.Nothing, "the controller has just begun to look"
	}
}

// unmet is for how long an entry stays on the list whose node is not there, once the controller
// began: the first that it is told of nodes may not be all of them.
const unmet = time.Minute

// look decides about all nodes, writes the list, and has done what follows.
func (k *Keeper) look(ctx context.Context, now time.Time) {
	k.pods.collect(ctx, now)
	k.taints.collect(ctx, now)
	if !k.world.met {
		k.world.meet(now)
	}
	keep, counts, longest := map[string]bool{}, map[shield.Action]int{}, time.Duration(0)
	actions := make(map[string]shield.Action, len(k.world.nodes))
	names := slices.Sorted(maps.Keys(k.world.nodes))
	for _, name := range names {
		action, why := k.decide(now, name)
		actions[name] = action
		counts[action]++
		if action != shield.HoldBound {
			delete(k.parted, name)
		}
		k.tell(name, k.world.nodes[name], action, why)
		k.world.decided(now, name, action, !k.young(now))
		if action.Keeps() {
			keep[name] = true
			longest = max(longest, k.world.nodes[name].lostFor(now))
		}
	}
	if now.Sub(k.begun) <= unmet {
		for name := range k.listed {
			if k.world.nodes[name] == nil {
				keep[name] = true
			}
		}
	}
	k.metrics.set(counts, longest)
	before := k.listed
	k.write(ctx, now, keep)
	given := k.given()
	for _, name := range k.taints.turns(names) {
		k.taint(ctx, now, name, k.world.nodes[name], actions[name], given)
	}
	k.tellOver(given)
	for _, name := range k.pods.turns(names) {
		k.treat(ctx, now, name, actions[name], before[name])
	}
	k.forget()
}

// forget forgets what is gone.
func (k *Keeper) forget() {
	gone := func(name string) bool { return k.world.nodes[name] == nil }
	maps.DeleteFunc(k.said, func(name string, _ shield.Action) bool { return gone(name) })
	maps.DeleteFunc(k.evicts, func(name string, _ time.Time) bool { return gone(name) })
	maps.DeleteFunc(k.tainted, func(name string, _ bool) bool { return gone(name) })
	maps.DeleteFunc(k.unseen, func(name string, _ bool) bool { return gone(name) })
	maps.DeleteFunc(k.parted, func(name string, _ bool) bool { return gone(name) })
	maps.DeleteFunc(k.owed, func(name string, _ time.Time) bool { return gone(name) })
	k.pods.forget(gone)
	k.taints.forget(gone)
}

// write writes the list where another one is due.
func (k *Keeper) write(ctx context.Context, now time.Time, keep map[string]bool) {
	due := func() bool {
		return k.absent || k.odd && now.Sub(k.written) >= 5*k.cfg.Every || !maps.Equal(keep, k.listed) || len(keep) > 0 && now.Sub(k.written) >= k.cfg.Renew
	}
	if !due() {
		return
	}
	data := k.list(now, keep) // may leave no more in keep than is listed
	if !due() || now.Sub(k.failed) < 5*k.cfg.Every {
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
	k.listed, k.absent, k.odd, k.written, k.until, k.failed = keep, false, false, now, now.Add(k.cfg.Expiry), time.Time{}
}

// found notes how the list is: what is not as it was written is written anew. What is told late may be as
// it was written the time before.
func (k *Keeper) found(list map[string]string, there bool) {
	k.absent, k.odd = !there, len(list) != len(k.listed)
	for name, text := range list {
		until, err := time.Parse(time.RFC3339, text)
		k.odd = k.odd || !k.listed[name] || err != nil || until.After(k.until) || k.until.Sub(until) > 2*k.cfg.Renew
	}
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
