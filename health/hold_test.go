package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/kube"
)

// office keeps Leases as an API server does, and counts who asks for what.
type office struct {
	mu      sync.Mutex
	version int
	leases  map[string]*coordinationv1.Lease
	asked   map[string]int  // by node and verb
	cut     map[string]bool // nodes that do not reach it
	refuse  error
}

var leaseResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func (o *office) do(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
}

// desk is one node's end of it.
type desk struct {
	coordinationclient.LeaseInterface
	*office
	node string
}

func (d desk) Leases(string) coordinationclient.LeaseInterface { return d }

func (d desk) serve(ctx context.Context, verb string, f func(version string) (*coordinationv1.Lease, error)) (l *coordinationv1.Lease, err error) {
	cut := false
	d.do(func() { d.asked[d.node+" "+verb]++; cut, err = d.cut[d.node], d.refuse })
	if cut {
		<-ctx.Done()
	}
	if ctx.Err() != nil || err != nil {
		return nil, errors.Join(context.Cause(ctx), err)
	}
	d.do(func() {
		d.version++
		if l, err = f(fmt.Sprint(d.version)); err == nil {
			l = l.DeepCopy()
		}
	})
	return l, err
}

func (d desk) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return d.serve(ctx, "get", func(string) (*coordinationv1.Lease, error) {
		if l := d.leases[name]; l != nil {
			return l, nil
		}
		return nil, apierrors.NewNotFound(leaseResource, name)
	})
}

func (d desk) Create(ctx context.Context, l *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return d.serve(ctx, "write", func(version string) (*coordinationv1.Lease, error) {
		if d.leases[l.Name] != nil {
			return nil, apierrors.NewAlreadyExists(leaseResource, l.Name)
		}
		d.leases[l.Name] = l.DeepCopy()
		d.leases[l.Name].ResourceVersion = version
		return d.leases[l.Name], nil
	})
}

func (d desk) Update(ctx context.Context, l *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return d.serve(ctx, "write", func(version string) (*coordinationv1.Lease, error) {
		if was := d.leases[l.Name]; was == nil || was.ResourceVersion != l.ResourceVersion {
			return nil, apierrors.NewConflict(leaseResource, l.Name, nil)
		}
		d.leases[l.Name] = l.DeepCopy()
		d.leases[l.Name].ResourceVersion = version
		return d.leases[l.Name], nil
	})
}

// candidates are nodes that all may hold the Lease of shop-7.
type candidates struct {
	*office
	until map[string]time.Time // what each was told
	quits map[string]chan Quit
	stop  map[string]func()
	log   testkit.Output
}

func newCandidates(t *testing.T, nodes ...string) *candidates {
	c := &candidates{
		office: &office{leases: map[string]*coordinationv1.Lease{}, asked: map[string]int{}, cut: map[string]bool{}},
		until:  map[string]time.Time{}, stop: map[string]func(){}, quits: map[string]chan Quit{},
	}
	for _, node := range nodes {
		ctx, cancel := context.WithCancel(t.Context())
		c.quits[node] = make(chan Quit, 1)
		units, may, ended := make(chan string, 1), make(chan bool, 1), make(chan struct{})
		units <- "shop-7"
		may <- true
		client := &kube.Client{Leases: desk{office: c.office, node: node}}
		go func() {
			defer close(ended)
			tell := func(until time.Time) { c.do(func() { c.until[node] = until }) }
			_ = HoldLease(ctx, client, "gridmesh", node, units, may, c.quits[node], tell, slog.New(slog.NewTextHandler(&c.log, nil)))
		}()
		c.stop[node] = func() { cancel(); <-ended }
		time.Sleep(time.Millisecond) // the first one is first
		synctest.Wait()
	}
	return c
}

func (c *candidates) end() {
	for _, stop := range c.stop {
		stop()
	}
}

// holders are who may say that it holds the Lease.
func (c *candidates) holders() (list []string) {
	c.do(func() {
		for node, until := range c.until {
			if time.Now().Before(until) {
				list = append(list, node)
			}
		}
	})
	return list
}

// within waits until a node alone holds the Lease, for some time at most, and says how long it
// took. At no time two do.
func (c *candidates) within(t *testing.T, most time.Duration, node string) {
	t.Helper()
	began := time.Now()
	for time.Since(began) <= most {
		switch list := c.holders(); {
		case len(list) > 1:
			t.Fatalf("after %s %q hold the Lease", time.Since(began), list)
		case len(list) == 1 && list[0] == node:
			t.Logf("%s holds it after %s", node, time.Since(began))
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("after %s %q hold the Lease, want %s", most, c.holders(), node)
}

// A unit costs the API server a write each ten seconds; and nothing else, where nobody waits to
// take over.
func TestWhatALeaseCosts(t *testing.T) {
	for n, nodes := range [][]string{{"a-1"}, {"a-1", "a-2", "a-3"}} {
		synctest.Test(t, func(t *testing.T) {
			c := newCandidates(t, nodes...)
			time.Sleep(10 * time.Minute)
			c.do(func() {
				if w := c.asked["a-1 write"]; w < 59 || w > 62 {
					t.Errorf("%d nodes: %d writes in ten minutes", len(nodes), w)
				}
				if r := c.asked["a-1 get"]; r > 2 {
					t.Errorf("%d nodes: who holds it reads it %d times", len(nodes), r)
				}
				if r := c.asked["a-2 get"]; r > 160*n || c.asked["a-2 write"] > 0 {
					t.Errorf("who waits reads it %d times, and writes it %d times", r, c.asked["a-2 write"])
				}
				if l := c.leases["edge-health-shop-7"]; l == nil || holderOf(l) != "a-1" || l.Labels[names.UnitLease] != "shop-7" || *l.Spec.LeaseDurationSeconds != 20 {
					t.Errorf("the Lease is %+v", l)
				}
			})
			if got := c.holders(); len(got) != 1 {
				t.Errorf("%q hold it", got)
			}
			c.end()
		})
	}
}

// Who holds it is cut off, at any time between two writes: the next one has it within 25 s, and
// never while the first may say that it does. It comes again, and waits.
func TestALeaseIsTakenOver(t *testing.T) {
	for phase := range 10 {
		synctest.Test(t, func(t *testing.T) {
			c := newCandidates(t, "a-1", "a-2")
			time.Sleep(time.Minute + time.Duration(phase)*time.Second)
			c.do(func() { c.cut["a-1"] = true })
			c.within(t, 25*time.Second, "a-2")
			c.do(func() { c.cut["a-1"] = false })
			time.Sleep(time.Minute)
			c.within(t, 0, "a-2")
			c.end()
		})
	}
}

// Who holds it says itself that it has no uplink: nobody waits until the Lease is old. What it said
// before it renewed it counts for nothing, nor what another one says.
func TestTheHolderQuits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCandidates(t, "a-1", "a-2")
		time.Sleep(time.Minute)
		old := Quit{"a-1", time.Now()}
		time.Sleep(20 * time.Second)
		for _, q := range []Quit{old, {"a-3", time.Now()}} {
			c.quits["a-2"] <- q
			time.Sleep(10 * time.Second)
			c.within(t, 0, "a-1")
		}
		c.do(func() { c.cut["a-1"] = true })
		time.Sleep(12 * time.Second)
		c.do(func() { c.until["a-1"] = time.Time{} }) // its vote knows that it has no uplink
		c.quits["a-2"] <- Quit{"a-1", time.Now()}
		c.within(t, time.Second, "a-2")
		c.end()
	})
}

// An API server that is away for a moment costs nobody the Lease, and one that is away for longer
// gives it to who held it. Who ends gives it back; another one begins where it was left.
func TestALeaseOutlastsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCandidates(t, "a-1")
		away := func(d time.Duration) {
			c.do(func() { c.cut["a-1"] = true })
			time.Sleep(d)
			c.do(func() { c.cut["a-1"] = false })
		}
		time.Sleep(9 * time.Second)
		away(4 * time.Second)
		c.within(t, 0, "a-1")
		time.Sleep(20 * time.Second)
		away(time.Minute)
		if got := c.holders(); len(got) > 0 {
			t.Errorf("%q hold it, and did not write it for a minute", got)
		}
		c.within(t, 8*time.Second, "a-1")
		c.stop["a-1"]()
		c.do(func() {
			if l := c.leases["edge-health-shop-7"]; holderOf(l) != "" || !c.until["a-1"].IsZero() {
				t.Errorf("it was not given back: %+v", l.Spec)
			}
		})
	})
	synctest.Test(t, func(t *testing.T) {
		c := newCandidates(t, "a-1", "a-2")
		time.Sleep(time.Minute)
		c.stop["a-1"]()
		c.within(t, 5*time.Second, "a-2")
		c.do(func() { delete(c.leases, "edge-health-shop-7") })
		c.within(t, 0, "a-2")
		time.Sleep(13 * time.Second)
		c.within(t, 0, "a-2")
		c.do(func() {
			if l := c.leases["edge-health-shop-7"]; l == nil || holderOf(l) != "a-2" {
				t.Errorf("somebody deleted it, and it is %+v", l)
			}
		})
		c.end()
	})
}

// Somebody else writes the Lease, whatever for: who held it holds it no more within seconds.
func TestALeaseIsTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCandidates(t, "a-1")
		time.Sleep(time.Minute + 5*time.Second)
		c.do(func() {
			l, other := c.leases["edge-health-shop-7"].DeepCopy(), "a-9"
			l.Spec.HolderIdentity, l.ResourceVersion = &other, "another"
			c.leases[l.Name] = l
		})
		time.Sleep(8 * time.Second)
		if got := c.holders(); len(got) > 0 {
			t.Errorf("%q hold it, and it is another one's", got)
		}
		c.within(t, 25*time.Second, "a-1")
		c.end()
	})
}

// Who has no right to it is told so, once.
func TestALeaseIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCandidates(t)
		c.refuse = apierrors.NewForbidden(leaseResource, "edge-health-shop-7", nil)
		h := holding{api: desk{office: c.office, node: "a-1"}, node: "a-1", unit: "shop-7", tell: func(time.Time) {}, log: slog.New(slog.NewTextHandler(&c.log, nil))}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		h.run(ctx)
		if n := c.log.Count("cannot hold its unit's Lease"); n != 1 {
			t.Errorf("told %d times: %s", n, c.log.String())
		}
	})
}
