package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gridmesh/gridmesh/health/check"
	"github.com/gridmesh/gridmesh/health/vote"
	"github.com/gridmesh/gridmesh/internal/latest"
	"github.com/gridmesh/gridmesh/internal/obs"
)

// Member is a node of the unit, as the API server has it.
type Member struct {
	Name    string       `json:"name"`
	UID     string       `json:"uid"`
	Addrs   []netip.Addr `json:"addrs"`             // its InternalIPs
	Lost    bool         `json:"lost,omitempty"`    // the cloud does not call it ready
	Verdict string       `json:"verdict,omitempty"` // annotation
	Cut     bool         `json:"cut,omitempty"`     // by its evidence: it said that it has no uplink
	By      string       `json:"by,omitempty"`      // by its evidence: who wrote it

	since  time.Time // it is lost or not, as the cloud has it
	untold bool      // by the cloud: another node knows of it
}

// Unit is who is in this node's unit.
type Unit struct {
	Name    string   `json:"name"` // the label's value; "" where the node is in none
	Members []Member `json:"members,omitempty"`
	Kept    bool     `json:"-"` // it is what was known last, and not the cloud's word by now
}

// Checker looks whether nodes are well (health/check).
type Checker interface {
	Round(ctx context.Context, targets []check.Target) map[string]bool
}

// Exchange is how nodes tell each other (health/peer).
type Exchange interface {
	Report(ctx context.Context, to string, r vote.Reported) (vote.Reply, error)
	Ask(ctx context.Context, to string, nodes []string) ([]vote.Result, error)
}

// Cloud is what a daemon does there.
type Cloud interface {
	// Annotate writes a verdict.
	Annotate(ctx context.Context, w Verdict) error
}

// Verdict is what is written of a node.
type Verdict struct {
	Node, UID string
	Well      bool
	Evidence  string
}

// Config is how a daemon works.
type Config struct {
	Vote vote.Config
	Log  *slog.Logger
	// OnUnit hears by which list of the unit this node votes, and whether that is live
	// (peer.Unit), whenever that changes; it is the loop that calls it. It may be nil.
	OnUnit func(u Unit, live bool)
}

// Daemon votes for one node. Its methods may be called by several at once.
type Daemon struct {
	cfg      Config
	checker  Checker
	exchange Exchange
	cloud    Cloud
	metrics  *Metrics

	do    chan func(now time.Time)  // to the loop
	work  sync.WaitGroup            // what the loop has under way
	may   chan bool                 // to who holds the Lease: whether this node may; the newest counts
	quits chan Quit                 // and who cannot hold it any more
	beat  atomic.Pointer[time.Time] // when the loop last began something

	// The loop's own.
	machine *vote.Machine
	unit    Unit // as it votes
	own     Unit // as the cloud said last
	lent    bool // unit is another node's word
	addrs   map[string]netip.Addr
	shared  map[netip.Addr]string // with who has them
	moved   map[string]spokenAt
	told    map[string]Member // what the machine was told of the cloud's word
	local   map[string]bool   // the last round's checks
	was     bool              // the last word on may
	notes   map[vote.Note]time.Time
	writes  writes
	up      bool // this node reaches the cloud
	upSince time.Time
	live    bool // unit is the cloud's word by now, and others may have it
	wakeAt  time.Time
	ctx     context.Context // of the loop, for what it begins
}

// New makes a daemon that knows nobody.
func New(cfg Config, c Checker, cloud Cloud, m *Metrics) (*Daemon, error) {
	if err := cfg.Vote.Validate(); err != nil {
		return nil, fmt.Errorf("vote: %w", err)
	}
	return &Daemon{
		cfg: cfg, checker: c, cloud: cloud, metrics: m, do: make(chan func(time.Time), 64), may: make(chan bool, 1), quits: make(chan Quit, 1),
		machine: vote.New(cfg.Vote), addrs: map[string]netip.Addr{}, moved: map[string]spokenAt{}, told: map[string]Member{}, notes: map[vote.Note]time.Time{},
		writes: writes{map[string]unwritten{}, map[string]bool{}, map[string]bool{}},
	}, nil
}

// SetExchange says how others are told; it is called once, before Run.
func (d *Daemon) SetExchange(e Exchange) { d.exchange = e }

// Run votes until ctx ends.
func (d *Daemon) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer func() { cancel(); d.work.Wait() }()
	d.ctx = ctx
	wake := time.NewTimer(0)
	defer wake.Stop()
	for {
		now := time.Now()
		d.beat.Store(&now)
		select {
		case f := <-d.do:
			f(time.Now())
		case <-wake.C:
			now := time.Now()
			d.step(now, vote.Tick{})
			d.pass(now, false)
		case <-ctx.Done():
			return nil
		}
		wake.Reset(time.Until(d.next()))
	}
}

// hangsAfter is how long the loop, which does no I/O, may be busy with one thing before it
// counts as hanging.
const hangsAfter = time.Minute

// ErrHangs says that the loop does not go on.
var ErrHangs = errors.New("the vote hangs")

// Live is ErrHangs where the loop does not go on, which a restart may cure: it wakes once a
// round, if nothing happens before. While it has not begun it is well.
func (d *Daemon) Live() error {
	at := d.beat.Load()
	if at != nil && time.Since(*at) >= hangsAfter+2*d.cfg.Vote.Every {
		return ErrHangs
	}
	return nil
}

// step has the machine take an event, and carries out what it wants.
func (d *Daemon) step(now time.Time, e vote.Event) {
	out := d.machine.Step(now, e)
	d.wakeAt = out.Wake
	d.carry(now, out)
	d.flush(now)
	if may := d.machine.May(now); may != d.was {
		d.was = may
		latest.Put(d.may, may)
	}
}

// query has the loop say something.
func query[T any](ctx context.Context, d *Daemon, f func(now time.Time) T) (t T, err error) {
	said := make(chan T, 1)
	select {
	case d.do <- func(now time.Time) { said <- f(now) }:
	case <-ctx.Done():
		return t, fmt.Errorf("ask the vote: %w", context.Cause(ctx))
	}
	select {
	case t = <-said:
		return t, nil
	case <-ctx.Done():
		return t, fmt.Errorf("ask the vote: %w", context.Cause(ctx))
	}
}

// tell has the loop take an event, unless it ends.
func (d *Daemon) tell(ctx context.Context, e vote.Event) {
	d.later(ctx, func(now time.Time) { d.step(now, e) })
}

// SetUnit says who is in the unit, whenever that, or the cloud's word on one of them, changes.
func (d *Daemon) SetUnit(ctx context.Context, u Unit) {
	d.later(ctx, func(now time.Time) {
		d.own, d.lent = u, false
		d.take(now, u)
	})
}

// SetUplink says whether this node reaches the cloud, whenever that changes.
func (d *Daemon) SetUplink(ctx context.Context, up bool) {
	d.later(ctx, func(now time.Time) {
		if up && !d.up {
			d.upSince = now
		}
		d.up = up
		if up && d.lent {
			d.lent = false
			d.take(now, d.own) // the cloud's word follows
		}
		d.pass(now, false)
		d.step(now, vote.Uplink{Up: up})
	})
}

// SetLease says until when this node holds the unit's Lease.
func (d *Daemon) SetLease(ctx context.Context, until time.Time) {
	d.tell(ctx, vote.Lease{Until: until})
}

// May hears whether this node may hold the unit's Lease, whenever that changes; the last
// word counts.
func (d *Daemon) May() <-chan bool { return d.may }

// Quits hears who says that it has no uplink, with each report; the last word counts.
func (d *Daemon) Quits() <-chan Quit { return d.quits }

func (d *Daemon) take(now time.Time, u Unit) {
	slices.SortFunc(u.Members, byName)
	list := u.voters()
	d.locate(u)
	if u.Name != d.unit.Name {
		d.cfg.Log.Info("this node votes in a unit", obs.KeyUnit, u.Name, obs.KeyMembers, len(list))
	}
	view := vote.NewView(list, d.cfg.Vote.Observers)
	d.unit = u
	d.pass(now, true)
	d.step(now, vote.Members{View: view})
	known := map[string]Member{}
	for _, m := range u.Members {
		if m.untold {
			continue
		}
		known[m.Name] = m
		if was, ok := d.told[m.Name]; ok && was.UID == m.UID && was.Lost == m.Lost && was.Verdict == m.Verdict && was.Cut == m.Cut && was.By == m.By {
			continue
		}
		d.step(now, vote.Cloud{Node: m.Name, Ready: !m.Lost, Verdict: vote.AnswerOf(m.Verdict), Cut: m.Cut, By: m.By, Since: m.since})
	}
	d.told = known
	maps.DeleteFunc(d.writes.lost, func(name string, _ bool) bool { return !known[name].Lost })
	d.metrics.members.Set(float64(len(list)))
}

func byName(a, b Member) int { return cmp.Compare(a.Name, b.Name) }
