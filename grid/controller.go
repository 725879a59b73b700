package grid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// Cluster is where grids and their children live.
type Cluster interface {
	List(kind string) []map[string]any
	Wake() <-chan struct{}
	Exists(ctx context.Context, kind, namespace, name string) (bool, error)
	Apply(ctx context.Context, obj map[string]any, manager string) (map[string]any, error)
	TakeOver(ctx context.Context, kind, namespace, name, from, to string) error
	Annotate(ctx context.Context, kind, namespace, name, key, value string) error
	Delete(ctx context.Context, kind, namespace, name string) error
}

// ErrTaken means that an object of a child's name exists and is nobody's child.
var ErrTaken = errors.New("an object of this name exists and is not this grid's")

// Config is what the operator chose.
type Config struct {
	Guard    plan.Guard
	Parallel int // writes at once
	Log      *slog.Logger
	Metrics  *Metrics
}

const (
	batch = 100 * time.Millisecond // changes come in flocks
	// look is how often the world is planned without a change: removals that
	// were held back come due.
	look        = 30 * time.Second
	firstRetry  = time.Second
	longestWait = time.Minute
	// settle is how long the mirror may lag behind a write of ours.
	settle = 10 * time.Second
)

// Controller keeps the children of all grids. It has one owner.
type Controller struct {
	cluster Cluster
	cfg     Config
	now     func() time.Time

	mu      sync.Mutex
	written map[string]record
	said    map[string]bool // problems already in the log
}

// record is a write of ours that the mirror may not show yet, or that the API
// server took otherwise than it was asked for.
type record struct {
	hash, version string
	at            time.Time
	seen          bool // by the mirror
}

// New returns a controller; Run runs it.
func New(c Cluster, cfg Config) *Controller {
	return &Controller{cluster: c, cfg: cfg, now: time.Now, written: map[string]record{}, said: map[string]bool{}}
}

// Run keeps children in line until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	retry := firstRetry
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.cluster.Wake():
			select {
			case <-time.After(batch):
			case <-ctx.Done():
				return nil
			}
		case <-timer.C:
		}
		failed, wait := c.pass(ctx)
		if failed == 0 {
			retry = firstRetry
			timer.Reset(wait)
			continue
		}
		timer.Reset(retry)
		retry = min(2*retry, longestWait)
	}
}

// pass plans the world and carries out what differs; it returns how many
// steps failed, and when to look again without a change.
func (c *Controller) pass(ctx context.Context) (failed int, wait time.Duration) {
	start := c.now()
	w := plan.World{Nodes: c.cluster.List("Node")}
	for _, kind := range []string{"DeploymentGrid", "StatefulSetGrid", "ServiceGrid"} {
		w.Grids = append(w.Grids, c.cluster.List(kind)...)
	}
	live := map[string]map[string]any{}
	for _, kind := range []string{"Deployment", "StatefulSet", "Service"} {
		for _, child := range c.cluster.List(kind) {
			w.Children = append(w.Children, child)
			live[key(kind, field(child, "namespace"), field(child, "name"))] = child
		}
	}
	plans := plan.All(w, c.cfg.Guard, start)
	c.problems(plans)
	wait = look
	var wg sync.WaitGroup
	slots := make(chan struct{}, c.cfg.Parallel)
	var mu sync.Mutex
	for _, p := range plans {
		for _, s := range p.Steps {
			if s.Wait > 0 {
				wait = min(wait, s.Wait+time.Second) // the mark has whole seconds
			}
			if !c.due(p, s, live[key(s.Kind, p.Key.Namespace, s.Name)]) {
				continue
			}
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				if err := c.carryOut(ctx, p, s); err != nil && ctx.Err() == nil {
					c.cfg.Log.Error("could not change a child of a grid; trying again", "grid", p.Key.String(), "unit", s.Unit, "err", err)
					c.cfg.Metrics.failures.Inc()
					mu.Lock()
					failed++
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	c.cfg.Metrics.passed(plans, c.now().Sub(start))
	return failed, wait
}

// due tells whether a step is to be carried out now.
func (c *Controller) due(p plan.Plan, s plan.Step, child map[string]any) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := key(s.Kind, p.Key.Namespace, s.Name)
	r, wrote := c.written[at]
	if wrote && child != nil && applied(child) == r.hash {
		r.seen = true
		c.written[at] = r
	}
	switch s.Action {
	case plan.Create, plan.Update, plan.Adopt:
	case plan.Hold:
		return s.Unmarked
	default:
		return s.Action == plan.Remove
	}
	switch {
	case !wrote || r.hash != applied(s.Object) || child == nil && r.seen:
		return true
	case applied(child) == r.hash:
		// Unchanged since: the API server made something else of our wish, and
		// would again.
		return version(child) != r.version
	default:
		return c.now().Sub(r.at) > settle // the mirror lags behind
	}
}

func (c *Controller) carryOut(ctx context.Context, p plan.Plan, s plan.Step) error {
	c.cfg.Metrics.writes.WithLabelValues(string(s.Action)).Inc()
	c.cfg.Log.Info("child of a grid", "action", string(s.Action), "grid", p.Key.String(), "unit", s.Unit, "child", strings.ToLower(s.Kind)+"/"+s.Name, "why", s.Why)
	switch s.Action {
	case plan.Create:
		// The mirror holds children alone; somebody else's object must not be
		// taken because it has the name.
		taken, err := c.cluster.Exists(ctx, s.Kind, p.Key.Namespace, s.Name)
		if err != nil {
			return err
		}
		if taken {
			return fmt.Errorf("%w: %s %s/%s; delete it, or hand it over by the labels %s=%s and %s", ErrTaken, s.Kind, p.Key.Namespace, s.Name, names.GridSelector, p.Key.Name, names.GridUniqKey)
		}
	case plan.Remove:
		c.forget(key(s.Kind, p.Key.Namespace, s.Name))
		return c.cluster.Delete(ctx, s.Kind, p.Key.Namespace, s.Name)
	case plan.Hold:
		return c.cluster.Annotate(ctx, s.Kind, p.Key.Namespace, s.Name, names.UnitGone, c.now().UTC().Format(time.RFC3339))
	case plan.Adopt:
		if err := c.cluster.TakeOver(ctx, s.Kind, p.Key.Namespace, s.Name, plan.SuperEdgeManager, plan.Manager); err != nil {
			return err
		}
	}
	if s.Unmark {
		if err := c.cluster.Annotate(ctx, s.Kind, p.Key.Namespace, s.Name, names.UnitGone, ""); err != nil {
			return err
		}
	}
	out, err := c.cluster.Apply(ctx, s.Object, plan.Manager)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.written[key(s.Kind, p.Key.Namespace, s.Name)] = record{hash: applied(s.Object), version: version(out), at: c.now()}
	c.mu.Unlock()
	return nil
}

// forget drops the record of a child that is no more.
func (c *Controller) forget(child string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.written, child)
}

// problems logs what is new, and forgets what is over.
func (c *Controller) problems(plans []plan.Plan) {
	now := map[string]bool{}
	for _, p := range plans {
		for _, problem := range p.Problems {
			text := problem.String()
			if now[text] = true; !c.said[text] {
				c.cfg.Log.Warn("a grid cannot be carried out whole", "problem", text)
			}
		}
	}
	c.said = now
}

func key(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

func field(obj map[string]any, name string) string {
	metadata, _ := obj["metadata"].(map[string]any)
	s, _ := metadata[name].(string)
	return s
}

// version changes with an object's content, and, where it has a generation,
// not with its status.
func version(obj map[string]any) string {
	metadata, _ := obj["metadata"].(map[string]any)
	if n, ok := metadata["generation"].(int64); ok && n > 0 {
		return fmt.Sprint("generation ", n)
	}
	return field(obj, "resourceVersion")
}

func applied(obj map[string]any) string {
	metadata, _ := obj["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	return fmt.Sprint(annotations[names.Applied])
}
