package peer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/gridmesh/gridmesh/health/vote"
)

// named has the nodes of a lab know UIDs, and a node another list than the others: without the last
// of them.
func named(l *lab, odd, gone string) {
	l.unit.UIDs = map[string]string{}
	for name := range l.unit.Addrs {
		l.unit.UIDs[name] = "uid-" + name
	}
	for name, n := range l.nodes {
		u := l.as(name)
		if name == odd {
			u.View, u.UIDs = "view 2", maps.Clone(u.UIDs)
			delete(u.Addrs, gone)
			delete(u.UIDs, gone)
		} else {
			u.Live = true
		}
		n.p.SetUnit(u)
	}
}

// Two nodes that know each other exchange, whoever else they know; who is asked says nothing of whom
// it does not know, or knows as another one, or elsewhere.
func TestListsDiffer(t *testing.T) {
	l := newLab(t, nil, "a", "b", "c", "d")
	named(l, "b", "d")
	l.must("a", "b")
	l.must("b", "a")
	if err := l.report("d", "b"); !errors.Is(err, ErrRefused) || l.nodes["b"].refused(stranger) != 1 {
		t.Errorf("who is no member: %v", err)
	}
	asks := func(change func(u *Unit), want ...string) {
		t.Helper()
		u := l.as("a")
		u.UIDs = maps.Clone(u.UIDs)
		change(&u)
		l.nodes["a"].p.SetUnit(u)
		got, err := l.nodes["a"].p.Ask(t.Context(), "b", []string{"c", "d"})
		var of []string
		for _, r := range got {
			of = append(of, r.Node)
		}
		if err != nil || !slices.Equal(of, want) {
			t.Errorf("%q, %v, want %q", of, err, want)
		}
	}
	asks(func(*Unit) {}, "c")
	asks(func(u *Unit) { u.UIDs["c"] = "another" })
	asks(func(u *Unit) { u.Addrs["c"] = []netip.Addr{nodeAddr(9)} })
}

// Who is to the other one another node, under the same name, is not understood; neither is one that
// compares whole lists.
func TestAnotherNodeOfTheName(t *testing.T) {
	l := newLab(t, nil, "a", "b", "c")
	for what, change := range map[string]func(u *Unit){
		"the sender":   func(u *Unit) { u.UIDs["a"] = "old" },
		"the receiver": func(u *Unit) { u.UIDs["b"] = "old" },
		"no UIDs":      func(u *Unit) { u.UIDs = nil },
	} {
		named(l, "", "")
		u := l.as("a")
		u.View, u.UIDs = "view 2", maps.Clone(u.UIDs)
		change(&u)
		l.nodes["a"].p.SetUnit(u)
		if err := l.report("a", "b"); !errors.Is(err, ErrView) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Who says that it has no uplink, and knows others, is told who is in the unit by who has one; nobody
// else is.
func TestAListIsPassedOn(t *testing.T) {
	l := newLab(t, nil, "a", "b", "c", "d")
	named(l, "b", "d")
	b := l.nodes["b"]
	for _, tc := range []struct {
		to   string
		up   bool
		live bool
		want int
	}{{"a", true, true, 0}, {"a", false, false, 0}, {"a", false, true, 1}} {
		u := l.as("a")
		u.Live = tc.live
		l.nodes["a"].p.SetUnit(u)
		if _, err := b.p.Report(t.Context(), tc.to, vote.Reported{Up: tc.up}); err != nil || len(b.adopted) != tc.want {
			t.Errorf("%+v: %v, %+v", tc, err, b.adopted)
		}
	}
	var want []Member
	for i, name := range []string{"a", "b", "c", "d"} {
		want = append(want, Member{name, "uid-" + name, []netip.Addr{nodeAddr(i)}})
	}
	if got := b.adopted[0]; got.From != "a" || !reflect.DeepEqual(got.List, want) {
		t.Errorf("%+v", got)
	}
	if _, err := l.nodes["c"].p.Report(t.Context(), "a", vote.Reported{}); err != nil || len(l.nodes["c"].adopted) > 0 {
		t.Errorf("who knows it is told %+v, %v", l.nodes["c"].adopted, err)
	}
}

// A list that is too long, or in which a Node has more addresses than are read, takes nothing else of
// a reply with it: by that one all would be strangers to each other for as long as that Node exists.
func TestAListThatIsTooMuch(t *testing.T) {
	many := func(n int) (list []netip.Addr) {
		for i := range n {
			list = append(list, netip.AddrFrom4([4]byte{10, 99, byte(i / 250), byte(1 + i%250)}))
		}
		return list
	}
	for what, change := range map[string]struct {
		of     func(u *Unit)
		passed int
	}{
		"a Node with 17 addresses": {func(u *Unit) { u.Addrs["z"], u.UIDs["z"] = many(MostAddrs+1), "uid-z" }, 4},
		"a unit of 5001": {func(u *Unit) {
			for i := range mostMembers - 2 {
				name := fmt.Sprint("n", i)
				u.Addrs[name], u.UIDs[name] = many(i + 1)[i:], "uid"
			}
		}, 0},
	} {
		l := newLab(t, nil, "a", "b", "c")
		named(l, "", "")
		live := l.as("a")
		live.Live, live.UIDs = true, maps.Clone(live.UIDs)
		change.of(&live)
		l.nodes["a"].p.SetUnit(live)
		b := l.nodes["b"]
		reply, err := b.p.Report(t.Context(), "a", vote.Reported{Hears: true})
		if err != nil {
			t.Errorf("%s: %v, %v", what, reply, err)
			continue
		}
		passed := 0
		if len(b.adopted) > 0 {
			list := b.adopted[0].List
			if passed = len(list); len(list[passed-1].Addrs) > MostAddrs {
				t.Errorf("%s: %d addresses are passed on", what, len(list[passed-1].Addrs))
			}
		}
		if passed != change.passed {
			t.Errorf("%s: %d members are passed on, want %d", what, passed, change.passed)
		}
	}
}

// What an older daemon passes on that is too much is left out, and the rest of its reply read.
func TestAListThatIsNoneIsLeftOut(t *testing.T) {
	r := reply{From: "a", Epoch: random(), Ups: []string{"b"}, Members: []Member{{"a", "uid-a", make([]netip.Addr, MostAddrs+1)}}}
	text, err := json.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeReply(text); err != nil || len(got.Members) > 0 || !slices.Equal(got.Ups, r.Ups) {
		t.Errorf("%+v, %v", got, err)
	}
}

// Who has no uplink is told of a node that got another address, too.
func TestAnAddressIsPassedOn(t *testing.T) {
	l := newLab(t, nil, "a", "b", "c")
	named(l, "", "")
	moved := nodeAddr(7)
	live := l.as("a")
	live.Live = true
	live.Addrs["c"] = []netip.Addr{moved}
	l.nodes["a"].p.SetUnit(live)
	b := l.nodes["b"]
	for range 2 {
		for _, up := range []bool{true, false} {
			if _, err := b.p.Report(t.Context(), "a", vote.Reported{Up: up}); err != nil {
				t.Fatal(err)
			}
		}
		if len(b.adopted) != 1 || !slices.Equal(b.adopted[0].List[2].Addrs, []netip.Addr{moved}) {
			t.Fatalf("it is told %+v", b.adopted)
		}
		known := l.as("b")
		known.Addrs["c"] = []netip.Addr{moved}
		b.p.SetUnit(known)
	}
}

// A node with another address than its Node has is not believed, and it is told that it spoke; what is
// sent again, or from a node's address, or under another UID, is nothing.
func TestANodeSpeaksFromElsewhere(t *testing.T) {
	l := newLab(t, nil, "a", "b", "c")
	named(l, "", "")
	moved := l.as("a")
	for _, name := range []string{"b", "c"} { // a's Node has another address to them
		u := l.as(name)
		u.Addrs["a"] = []netip.Addr{nodeAddr(9)}
		l.nodes[name].p.SetUnit(u)
	}
	l.nodes["a"].p.SetUnit(moved)
	b := l.nodes["b"]
	for range 2 { // b's clock is known from the first refusal
		if err := l.report("a", "b"); !errors.Is(err, ErrRefused) {
			t.Errorf("%v", err)
		}
	}
	want := []string{"a " + l.addr("a").String()}
	if !slices.Equal(b.elsewhere, want) || b.reports() > 0 {
		t.Errorf("it is told %q, and %d reports", b.elsewhere, b.reports())
	}
	rec := l.nodes["a"].sent.last()
	if status, _ := l.put(l.addr("a"), "b", rec); status != http.StatusForbidden || !slices.Equal(b.elsewhere, want) {
		t.Errorf("sent again: %d, %q", status, b.elsewhere)
	}
	l.nodes["a"].sent.mu.Lock()
	l.nodes["a"].sent.sent = nil
	l.nodes["a"].sent.mu.Unlock()
	_ = l.report("a", "c")
	if status, _ := l.put(l.addr("b"), "c", l.nodes["a"].sent.last()); status != http.StatusForbidden || len(l.nodes["c"].elsewhere) > 0 {
		t.Errorf("from b's address: %d, %q", status, l.nodes["c"].elsewhere)
	}
}
