package node

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/node/envoy"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/outage"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds"
	"github.com/gridmesh/gridmesh/xds/admin"
)

func TestMain(m *testing.M) {
	if os.Getenv(inNamespaces) != "" {
		os.Exit(m.Run()) // every test keeps a thread, which goleak would miss
	}
	goleak.VerifyTestMain(m)
}

// api gives the twin of the API server what this package's type needs.
type api struct{ *nodetest.API }

func (a api) APIServer() report.APIServer {
	var away error
	a.Set(func(twin *nodetest.API) { away = twin.Away })
	if away != nil {
		if errors.Is(away, errRefuses) {
			return report.APIServer{Error: away.Error(), Refused: refusesSince}
		}
		return report.APIServer{Error: away.Error()}
	}
	return report.APIServer{LastContact: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

var (
	_ Source      = (*nodetest.Source)(nil)
	_ Capture     = (*nodetest.Capture)(nil)
	_ XDS         = (*nodetest.XDS)(nil)
	_ Cluster     = api{}
	_ envoy.Admin = (*nodetest.Envoy)(nil)
	_ envoy.Admin = (*admin.Reader)(nil)
	_ Capture     = (*capture.Capture)(nil)
	_ XDS         = (*xds.Server)(nil)
)

// rig is an agent made of twins. What a test sets before start is in force.
type rig struct {
	cfg       Config
	journal   *nodetest.Journal
	kernel    *nodetest.Kernel
	capture   *nodetest.Capture
	source    *nodetest.Source
	xds       *nodetest.XDS
	api       *nodetest.API   // nil: no API server
	envoy     *nodetest.Envoy // nil: it is not asked
	mu        sync.Mutex
	found     []capture.Finding                                   // by mu, once it runs
	host      []capture.Network                                   // by mu, once it runs
	looked    error                                               // beside what each look at the node found
	links     chan struct{}                                       // of the newest process
	ended     atomic.Bool                                         // nothing of the watch of links runs any more
	wrap      func(Capture) Capture                               // nil: as it is
	disk      <-chan struct{}                                     // nil: the disk; else it stalls until this is closed
	notes     func(statedir.Notebook) (outage.Noted, outage.Note) // nil: as on disk
	lock      func(dir string) (func(), error)                    // nil: none is taken
	readState func(path string) (*source.State, error)            // nil: as on disk
	watch     func(context.Context) (<-chan struct{}, error)      // nil: watchLinks
	log       *testkit.Output
	asleep    atomic.Int64 // for how long the node was suspended since its boot
	set       atomic.Int64 // by how much its clock was set ahead since
	ahead     sync.Map     // by how much its clock was ahead when it was read first, by that time
	began     time.Time    // an hour after its boot

	proxy     *otherProxy                                        // nil: nobody is taken over from
	supervise func(ctx context.Context, alive func() bool) error // nil: nobody does
	serves    func(ctx context.Context) error                    // nil: Envoy is not asked whether it serves
	podCIDRs  func(node string) []netip.Prefix
	usable    func() (ever bool, fault error)
	dir       *source.Dir // nil: source

	agent *Agent
	loop  *loop
	stop  func() // ends the loop and waits for it
}

var serviceRange = netip.MustParsePrefix("10.96.0.0/16")

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{cfg: Default(), journal: &nodetest.Journal{}, kernel: &nodetest.Kernel{}, stop: func() {}, began: time.Now()}
	r.cfg.Node, r.cfg.StateDir = "a-1", t.TempDir()
	r.cfg.ServiceCIDRs = []netip.Prefix{serviceRange}
	r.again()
	return r
}

// again is a new process on the same node: what is in the kernel and on disk stays.
func (r *rig) again() {
	r.lock = nil
	r.capture, r.source, r.log = nodetest.NewCapture(r.kernel, r.journal), &nodetest.Source{}, &testkit.Output{}
}

// watchLinks takes its time to end, as the real one does.
func (r *rig) watchLinks(ctx context.Context) (<-chan struct{}, error) {
	links := r.links
	context.AfterFunc(ctx, func() {
		time.Sleep(10 * time.Millisecond)
		r.ended.Store(true)
		close(links)
	})
	return links, nil
}

// clocks are the node's.
func (r *rig) clocks() outage.Clocks {
	now, asleep, set := time.Now(), time.Duration(r.asleep.Load()), time.Duration(r.set.Load())
	r.ahead.LoadOrStore(now, asleep+set)
	return outage.Clocks{Now: now, Shown: now.Round(0).Add(asleep + set), Booted: time.Hour + now.Sub(r.began) + asleep}
}

// moment is what the clocks said at a time when they were read.
func (r *rig) moment(at time.Time) outage.Clocks {
	c := outage.Clocks{Now: at, Shown: at.Round(0)}
	if ahead, read := r.ahead.Load(at); read {
		c.Shown = c.Shown.Add(ahead.(time.Duration))
	}
	return c
}

// contact is a sign of life of the source, a moment later.
func (r *rig) contact() {
	time.Sleep(time.Nanosecond)
	r.source.Contacted(r.clocks().Now)
}

func (r *rig) parts() Parts {
	r.links = make(chan struct{}, 1)
	r.ended.Store(false)
	p := Parts{
		Log: slog.New(slog.NewTextHandler(r.log, nil)), Registry: prometheus.NewRegistry(), Source: r.source, Capture: r.capture,
		XDS: func(requested func([]string), refused func(xds.Nack)) XDS {
			r.xds = nodetest.NewXDS(r.journal, requested, refused)
			return r.xds
		},
		Inspect: func() ([]capture.Finding, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return slices.Clone(r.found), r.looked
		},
		Networks: func(ranges []netip.Prefix) (list []capture.Network, err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, n := range r.host {
				if slices.ContainsFunc(ranges, n.Prefix.Overlaps) {
					list = append(list, n)
				}
			}
			return list, r.looked
		},
		WatchLinks: r.watchLinks, Supervise: r.supervise, EnvoyServes: r.serves, PodCIDRs: r.podCIDRs, Usable: r.usable,
	}
	if r.dir != nil {
		p.Source, p.PodCIDRs, p.Remember = r.dir, r.dir.PodCIDRs, r.dir.Remember
	}
	if r.watch != nil {
		p.WatchLinks = r.watch
	}
	if r.envoy != nil {
		p.Envoy = r.envoy
	}
	if r.proxy != nil {
		p.KubeProxy = r.proxy
	}
	if r.wrap != nil {
		p.Capture = r.wrap(r.capture)
	}
	if r.api != nil {
		r.api.Journal = r.journal
		p.Cluster = api{r.api}
	}
	return p
}

// start runs the agent without its listeners, and with an Envoy, inside a
// synctest bubble.
func (r *rig) start(t *testing.T) error {
	t.Helper()
	var err error
	if r.agent, err = New(r.cfg, r.parts()); err != nil {
		t.Fatal(err)
	}
	if r.notes != nil {
		r.agent.readNotes = r.notes
	}
	r.agent.clocks, r.agent.moment = r.clocks, r.moment
	if r.readState != nil {
		r.agent.readState = r.readState
	}
	if r.lock != nil {
		r.agent.parts.LockNetwork = func() (func(), error) { return func() {}, nil }
		r.agent.dir.TakeLock = r.lock
		if err := r.agent.lockDir(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	fresh, err := r.agent.inspect(ctx)
	if err == nil {
		r.agent.show(fresh)
		r.loop, err = r.agent.start(ctx)
	}
	if err != nil {
		cancel()
		return err
	}
	if r.disk != nil {
		put := r.loop.saver.Put
		r.loop.saver.Put = func(st *source.State, now time.Time) error { <-r.disk; return put(st, now) }
		record := r.loop.recorder.Put
		r.loop.recorder.Put = func(was, want outage.Note) (outage.Note, error) { <-r.disk; return record(was, want) }
	}
	r.xds.Connect("1.40.0")
	var wg sync.WaitGroup
	for _, m := range r.agent.members(r.loop) {
		wg.Go(func() {
			if err := m.run(ctx); err != nil {
				t.Errorf("%s: %v", m.name, err)
			}
		})
	}
	r.stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	t.Cleanup(r.stop)
	synctest.Wait()
	return nil
}

func (r *rig) mustStart(t *testing.T) {
	t.Helper()
	if err := r.start(t); err != nil {
		t.Fatal(err)
	}
}

// publish feeds a snapshot and waits until it is acted on.
func (r *rig) publish(o *nodetest.Objects) {
	r.source.Publish(o.Snapshot())
	synctest.Wait()
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// wantServed compares the frontends in the kernel.
func (r *rig) wantServed(t *testing.T, when string, want ...string) {
	t.Helper()
	rules, _ := r.kernel.InForce()
	var got []string
	for _, f := range rules.Serve {
		got = append(got, f.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: the kernel serves %v, want %v", when, got, want)
	}
}

// wantJournal compares what was done since the last look.
func (r *rig) wantJournal(t *testing.T, when string, want ...string) {
	t.Helper()
	if got := r.journal.Take(); !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", when, got, want)
	}
}

func (r *rig) wantHealthy(t *testing.T, when string, want bool) {
	t.Helper()
	if h := r.agent.health(time.Now()); h.Healthy != want {
		t.Errorf("%s: healthy %v, want %v (%+v)", when, h.Healthy, want, r.agent.status())
	}
}

var errBroken = errors.New("broken for the test")

// errRefuses is an API server that refuses what is asked since that time.
var errRefuses, refusesSince = errors.New("forbidden"), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// web is a closed Service of unit a, as most tests use it.
const webFrontend, otherFrontend = "10.96.0.10:80/tcp", "10.96.0.11:80/tcp"

func webOnly() *nodetest.Objects {
	o := nodetest.NewObjects()
	o.Closed("web", "10.96.0.10", map[string]string{"a-2": "10.244.2.5", "b-1": "10.244.9.5"})
	return o
}

func webAndOther() *nodetest.Objects {
	o := webOnly()
	o.Closed("other", "10.96.0.11", map[string]string{"a-2": "10.244.2.6"})
	return o
}

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func problem(i string) topology.Problem {
	return topology.Problem{Object: "service default/" + i, Text: "is wrong"}
}
