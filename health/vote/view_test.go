package vote

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func members(n int) (list []Member) {
	for i := range n {
		list = append(list, Member{fmt.Sprintf("n%05d", i), fmt.Sprintf("uid-%d", i)})
	}
	return list
}

// Each node observes as many as observe it, itself is not among them, and all who have the
// same members in any order have the same view.
func TestObservers(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 11, 12, 100, 1000} {
		list := members(n)
		v := NewView(list, 10)
		slices.Reverse(list)
		if again := NewView(append(list, list...), 10); again.ID != v.ID || !slices.Equal(again.Ranked(), v.Ranked()) {
			t.Errorf("%d nodes: the order of members makes another view", n)
		}
		most := 0
		for _, name := range v.Names() {
			observers := v.Observers(name)
			if want := min(10, n-1); len(observers) != want || slices.Contains(observers, name) || len(slices.Compact(slices.Sorted(slices.Values(observers)))) != want {
				t.Fatalf("of %d nodes %s is observed by %q", n, name, observers)
			}
			for _, o := range observers {
				if !slices.Contains(v.Subjects(o), name) {
					t.Fatalf("%s observes %s, and does not know", o, name)
				}
			}
			most = max(most, len(v.Subjects(name)))
		}
		if most > 14 {
			t.Errorf("of %d nodes one observes %d", n, most)
		}
	}
}

// A node more changes the observers of few others.
func TestANodeMoreChangesLittle(t *testing.T) {
	list := members(500)
	before, after := NewView(list[1:], 10), NewView(list, 10)
	changed := 0
	for _, name := range before.Names() {
		for _, o := range after.Observers(name) {
			if !slices.Contains(before.Observers(name), o) {
				changed++
			}
		}
	}
	if changed > 40 || before.ID == after.ID {
		t.Errorf("%d of 4990 observers are others; views %s and %s", changed, before.ID, after.ID)
	}
}

// A node that comes again under its name is another one.
func TestAnotherNodeOfTheSameName(t *testing.T) {
	if NewView([]Member{{"a", "1"}, {"b", "2"}}, 10).ID == NewView([]Member{{"a", "1"}, {"b", "3"}}, 10).ID {
		t.Error("the view is the same")
	}
	if NewView([]Member{{"ab", "c"}}, 10).ID == NewView([]Member{{"a", "bc"}}, 10).ID {
		t.Error("names and UIDs run into each other")
	}
}

func TestDecide(t *testing.T) {
	for _, tc := range []struct {
		n, yes, no int
		want       Answer
	}{
		{0, 0, 0, None},
		{1, 1, 0, None},
		{1, 0, 1, None},
		{2, 1, 0, None}, // by itself alone
		{2, 2, 0, Yes},
		{2, 0, 1, No},
		{2, 1, 1, None},
		{3, 1, 1, None},
		{3, 2, 0, Yes},
		{3, 0, 2, No},
		{4, 0, 2, None}, // half
		{4, 2, 2, None},
		{4, 0, 3, No},
		{5, 2, 2, None},
		{5, 1, 3, No},
		{100, 50, 0, None},
		{100, 51, 0, Yes},
		{100, 0, 50, None},
		{100, 0, 51, No},
	} {
		if got := Decide(tc.n, tc.yes, tc.no); got != tc.want {
			t.Errorf("of %d nodes %d yes, %d no: %s, want %s", tc.n, tc.yes, tc.no, got, tc.want)
		}
	}
}

func TestConfig(t *testing.T) {
	if err := Default("a").Validate(); err != nil {
		t.Error(err)
	}
	if err := (Config{}).Validate(); err == nil || strings.Count(err.Error(), "\n") < 8 {
		t.Errorf("of nothing this is wrong: %v", err)
	}
}

// What strangers say changes nothing, and nothing that is said ends the machine.
func FuzzStep(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Fuzz(func(t *testing.T, script []byte) {
		v, other := NewView(members(5), 10), NewView(append(members(4), Member{"stranger", "1"}), 10)
		m := New(Default(v.Names()[0]))
		now := began
		asked := []int64{0}
		m.Step(now, Members{v})
		name := func(b byte) string { return append(slices.Clone(v.Names()), "", "stranger")[int(b)%7] }
		for i := 0; i+3 < len(script); i += 4 {
			a, b, c := script[i+1], script[i+2], script[i+3]
			now = now.Add(Default("").Every / 8 * (1 + 1<<(c%6)))
			results := []Result{{name(b), Answer(c % 5)}, {name(c), Answer(b)}, {name(b), No}}
			out := m.Step(now, []Event{
				Tick{},
				Members{[]*View{v, other}[int(a)%2]},
				Checked{map[string]bool{name(a): b%2 == 0, name(b): c%2 == 0}},
				Reported{name(a), results, c%2 == 0, c%3 == 0, b%3 == 0},
				Delivered{name(a), b%2 == 0, Reply{[]string{name(b), name(c)}, name(c), -5, c%3 == 0, []string{name(b)}}},
				Answered{asked[int(b)%len(asked)], name(a), results, c%4 == 0, c%8 == 0},
				Uplink{a%2 == 0},
				Lease{now.Add(Default("").Every)},
				Cloud{Node: name(a), Ready: b%2 == 0, Verdict: Answer(c % 3), Cut: c%2 == 0},
			}[script[i]%9])
			for _, q := range out.Ask {
				asked = append(asked, q.Number)
			}
			for _, w := range out.Write {
				if !v.Has(w.Node) && !other.Has(w.Node) || w.Verdict == No && (!w.Proof.Exact || w.Proof.No < 3) {
					t.Fatalf("writes %+v", w)
				}
			}
			m.Reply(now)
			m.Dead(now)
		}
	})
}
