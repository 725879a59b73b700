package health

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/health/check"
	"github.com/gridmesh/gridmesh/health/peer"
	"github.com/gridmesh/gridmesh/health/vote"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

func memberAt(name string, addrs ...string) Member {
	m := Member{Name: name, UID: "uid-" + name}
	for _, a := range addrs {
		m.Addrs = append(m.Addrs, netip.MustParseAddr(a))
	}
	return m
}

func passed(members ...Member) (list []peer.Member) {
	for _, m := range members {
		list = append(list, peer.Member{Name: m.Name, UID: m.UID, Addrs: m.Addrs})
	}
	return list
}

// alone is a daemon that nobody else hears, and what it had its exchange know.
type alone struct {
	*Daemon
	log   testkit.Output
	mu    sync.Mutex
	lists []string
}

func (a *alone) said(t *testing.T, what, want string) {
	t.Helper()
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if got := a.lists[len(a.lists)-1]; got != want {
		t.Errorf("%s: it votes with %s, want %s", what, got, want)
	}
}

func newAlone(t *testing.T, ctx context.Context) (*alone, chan struct{}) {
	a := &alone{}
	onUnit := func(u Unit, live bool) {
		text := fmt.Sprintf("live=%v", live)
		for _, m := range u.Members {
			text += " " + m.Name
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.lists = append(a.lists, text)
	}
	s := &site{dead: map[string]bool{"a-1": true}, verdicts: map[string]Verdict{}}
	e := end{s, "a-1"}
	var err error
	if a.Daemon, err = New(Config{vote.Default("a-1"), slog.New(slog.NewTextHandler(&a.log, nil)), onUnit}, e, e, NewMetrics(prometheus.NewRegistry())); err != nil {
		t.Fatal(err)
	}
	a.SetExchange(e)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = a.Run(ctx) }()
	return a, ended
}

// A node without an uplink votes by the list of one that has, until the cloud tells it again; it is
// not told that it is in no unit, or is another node. Whose list is the cloud's for half a minute may
// pass it on.
func TestAListIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a, ended := newAlone(t, ctx)
		one, two, three, new := memberAt("a-1", "192.0.2.1"), memberAt("a-2", "192.0.2.2"), memberAt("a-3", "192.0.2.3"), memberAt("a-4", "192.0.2.4")
		a.SetUnit(ctx, Unit{Name: "a", Members: []Member{one, two, three}, Kept: true})
		a.SetUplink(ctx, true)
		time.Sleep(time.Minute)
		a.said(t, "what is kept", "live=false a-1 a-2 a-3")
		a.SetUnit(ctx, Unit{Name: "a", Members: []Member{one, two, three}})
		a.said(t, "it is up", "live=true a-1 a-2 a-3")
		a.Adopt(ctx, "a-2", passed(one, two, new))
		a.said(t, "it has an uplink", "live=true a-1 a-2 a-3")
		a.SetUplink(ctx, false)
		a.said(t, "it has none", "live=false a-1 a-2 a-3")
		a.Adopt(ctx, "a-2", passed(two, new))
		other := one
		other.UID = "another"
		a.Adopt(ctx, "a-2", passed(other, two))
		a.said(t, "lists without it", "live=false a-1 a-2 a-3")
		a.Adopt(ctx, "a-2", passed(one, two, new))
		a.said(t, "adopted", "live=false a-1 a-2 a-4")
		if targets, err := query(ctx, a.Daemon, func(now time.Time) []check.Target { return a.targets(now, []string{"a-4", "a-3"}) }); err != nil || targets[0].Addr != new.Addrs[0] || targets[1].Addr.IsValid() {
			t.Errorf("%v, %v", targets, err)
		}
		elsewhere := memberAt("a-4", "192.0.2.44")
		a.Adopt(ctx, "a-2", passed(one, two, elsewhere))
		a.said(t, "one has another address", "live=false a-1 a-2 a-4")
		if targets, err := query(ctx, a.Daemon, func(now time.Time) []check.Target { return a.targets(now, []string{"a-4"}) }); err != nil || targets[0].Addr != elsewhere.Addrs[0] {
			t.Errorf("it is looked for at %v, %v", targets, err)
		}
		a.SetUplink(ctx, true)
		a.said(t, "its uplink is back", "live=false a-1 a-2 a-3")
		time.Sleep(45 * time.Second)
		a.said(t, "and was for long", "live=true a-1 a-2 a-3")
		cancel()
		<-ended
	})
}

// A Node may have more addresses than are passed on, and one of them twice; and it is lost since a time.
func TestAMemberOfANode(t *testing.T) {
	n := &corev1.Node{}
	for i := range 20 {
		n.Status.Addresses = append(n.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: fmt.Sprint("192.0.2.", 1+i/2)}, corev1.NodeAddress{Type: corev1.NodeHostName, Address: "a"},
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: fmt.Sprint("::ffff:192.0.2.", 101+i)})
	}
	lost := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: lost}}
	m := MemberOf(n)
	if !m.Lost || !m.since.Equal(lost.Time) {
		t.Errorf("lost %t, since %s", m.Lost, m.since)
	}
	if len(m.Addrs) != peer.MostAddrs || m.Addrs[0] != netip.MustParseAddr("192.0.2.1") || m.Addrs[1] != netip.MustParseAddr("192.0.2.101") {
		t.Errorf("%d: %v", len(m.Addrs), m.Addrs)
	}
	all := map[netip.Addr]bool{}
	for _, a := range m.Addrs {
		all[a] = true
	}
	if len(all) != len(m.Addrs) {
		t.Errorf("one is there twice: %v", m.Addrs)
	}
}
