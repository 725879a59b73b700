package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/health/check"
	"github.com/gridmesh/gridmesh/health/evidence"
	"github.com/gridmesh/gridmesh/health/vote"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a unit in memory: daemons that hear each other, but for those that are dead.
type site struct {
	mu       sync.Mutex
	dead     map[string]bool
	daemons  map[string]*Daemon
	verdicts map[string]Verdict
	holder   string // of the Lease; who may have it first, where that is empty
}

var errSilent = errors.New("no answer")

func (s *site) isDead(names ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(names, func(name string) bool { return s.dead[name] })
}

// end is one node's end of the site.
type end struct {
	*site
	self string
}

func (e end) Round(_ context.Context, targets []check.Target) map[string]bool {
	of := map[string]bool{}
	for _, t := range targets {
		of[t.Node] = !e.isDead(t.Node, e.self)
	}
	return of
}

func (e end) Report(ctx context.Context, to string, r vote.Reported) (vote.Reply, error) {
	if e.isDead(to, e.self) {
		return vote.Reply{}, errSilent
	}
	return e.daemons[to].Report(ctx, r), nil
}

func (e end) Ask(ctx context.Context, to string, nodes []string) ([]vote.Result, error) {
	if e.isDead(to, e.self) {
		return nil, errSilent
	}
	return e.daemons[to].Probe(ctx, slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == to })), nil
}

func (e end) Annotate(_ context.Context, v Verdict) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.verdicts[v.Node] = v
	return nil
}

func newSite() *site {
	return &site{dead: map[string]bool{}, daemons: map[string]*Daemon{}, verdicts: map[string]Verdict{}, holder: "a-0"}
}

// unit is one of so many nodes, with a daemon on each, none of which runs yet.
func (s *site) unit(t *testing.T, n int) Unit {
	t.Helper()
	u := Unit{Name: "a"}
	for i := range n {
		m := Member{Name: fmt.Sprint("a-", i), UID: fmt.Sprint(i), Addrs: []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})}}
		e := end{s, m.Name}
		d, err := New(Config{vote.Default(m.Name), slog.New(slog.DiscardHandler), nil}, e, e, NewMetrics(prometheus.NewRegistry()))
		if err != nil {
			t.Fatal(err)
		}
		d.SetExchange(e)
		s.daemons[m.Name] = d
		u.Members = append(u.Members, m)
	}
	return u
}

// start runs the daemons of a unit; the holder gets the Lease, and a-1 has no uplink.
func (s *site) start(ctx context.Context, all *sync.WaitGroup, u Unit) {
	for name, d := range s.daemons {
		all.Go(func() { _ = d.Run(ctx) })
		all.Go(func() {
			for {
				select {
				case may := <-d.May():
					if until := time.Now().Add(time.Hour); may && s.holds(name) {
						d.SetLease(ctx, until)
					}
				case <-ctx.Done():
					return
				}
			}
		})
		d.SetUnit(ctx, u.clone())
		d.SetUplink(ctx, name != "a-1")
	}
}

// clone is a unit for one daemon, which sorts it.
func (u *Unit) clone() Unit {
	of := *u
	of.Members = slices.Clone(u.Members)
	return of
}

func (s *site) holds(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holder = cmp.Or(s.holder, name)
	return s.holder == name
}

func (s *site) kill(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead[name] = true
}

func (s *site) live(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.dead, name)
}

// Daemons of a unit call each other well by the one that holds the Lease, and one that died
// dead; who says that it has no uplink is written down with that.
func TestDaemons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		u := s.unit(t, 5)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		s.start(ctx, &all, u)
		time.Sleep(3 * time.Minute)
		s.mu.Lock()
		got := maps.Clone(s.verdicts)
		s.mu.Unlock()
		s.kill("a-4")
		for _, m := range u.Members {
			v := got[m.Name]
			e, err := evidence.Parse(v.Evidence)
			if err != nil || !v.Well || v.UID != m.UID || e.Cut != (m.Name == "a-1") || e.By != "a-0" {
				t.Errorf("%s: %+v, %+v, %v", m.Name, v, e, err)
			}
		}
		time.Sleep(2 * time.Minute)
		s.mu.Lock()
		if v := s.verdicts["a-4"]; v.Well {
			t.Errorf("a-4 died: %+v", v)
		}
		s.mu.Unlock()
		if dead, err := s.daemons["a-2"].Dead(ctx); err != nil || !slices.Equal(dead, []string{"a-4"}) {
			t.Errorf("a-2 knows as dead %v, %v", dead, err)
		}
		cancel()
		all.Wait()
	})
}

func TestLeaseName(t *testing.T) {
	had := map[string]string{}
	many := Grouping{}
	for i := range 40 {
		many.Units = append(many.Units, fmt.Sprintf("shop-%d-%s", i, strings.Repeat("x", 50)))
	}
	member := map[string]string{}
	for _, name := range many.Units {
		member[name] = names.NodeUnitMember
	}
	for _, unit := range []string{"shop-7", "Shop-7", "shop_7", "SHOP.7", "_", "a.b", "a..b", "shop-1,shop-2", "shop-1-shop-2", many.unitOf(member), strings.Repeat("s", 63), strings.Repeat("Ab", 31)} {
		name := LeaseName(unit)
		if errs := validation.IsValidLabelValue(short(unit)); len(errs) > 0 || short(unit) == "" {
			t.Errorf("%s has the label %s: %s", unit, short(unit), errs)
		}
		if !subdomain.MatchString(name) || len(name) > 253 {
			t.Errorf("%s has the Lease %s", unit, name)
		}
		if other, ok := had[name]; ok {
			t.Errorf("%s and %s have one Lease, %s", unit, other, name)
		}
		had[name] = unit
	}
	for unit, want := range map[string]string{"shop-7": "edge-health-shop-7", "Shop_7": "edge-health.shop-7.53686f705f37"} {
		if got := LeaseName(unit); got != want {
			t.Errorf("%s has the Lease %s, want %s", unit, got, want)
		}
	}
}

func TestTheUnitIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "unit")
	if u, err := readUnit(file); u != nil || err != nil {
		t.Errorf("nothing is kept: %v, %v", u, err)
	}
	want := Unit{"a", []Member{{Name: "a-1", UID: "1", Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Lost: true, Verdict: "true"}}, false}
	if err := writeUnit(file, want); err != nil {
		t.Fatal(err)
	}
	if u, err := readUnit(file); err != nil || !reflect.DeepEqual(*u, want) {
		t.Errorf("%v, %v", u, err)
	}
	for text, why := range map[string]string{"{": "unexpected end", strings.Repeat(" ", mostKept+1): "at most"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readUnit(file); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v: want %q", err, why)
		}
	}
}
