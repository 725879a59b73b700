package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/api/names"
)

// told is what a node of a unit says in which each of n nodes checks k others, by their order.
func told(node string, n, k int, at time.Time) NodeStatus {
	s := NodeStatus{APIVersion: names.StatusVersion, Kind: names.StatusKind, Node: node, At: at, Unit: "a", View: "0a1b", FreshSeconds: 25, RoundSeconds: 10}
	name := func(i int) string { return fmt.Sprintf("a-%04d", i%n) }
	for i := range n {
		m := Member{Name: name(i)}
		h := Heard{From: name(i), Uplink: true, Age: 3, Results: []Seen{}}
		for j := range k {
			m.Observers = append(m.Observers, name(i+n-1-j))
			h.Results = append(h.Results, Seen{name(i + 1 + j), "yes"})
		}
		s.Members, s.Reports = append(s.Members, m), append(s.Reports, h)
	}
	return s
}

func text(t *testing.T, x *Matrix) string {
	t.Helper()
	var b strings.Builder
	if err := x.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Of two words on a pair the newer counts, and what nobody heard of late is marked.
func TestMatrixIsMerged(t *testing.T) {
	older, newer := told("a-0000", 3, 2, base), told("a-0001", 3, 2, base.Add(time.Second))
	older.Reports[2].Age = 0
	older.Reports[2].Results[0].Answer = "no" // a-0002 sees a-0000, newer than the other one has it
	newer.Reports[0].Age = 40
	newer.Reports[1].Results[0].Answer = "abstain"
	newer.View = "2c3d"
	list := MatricesOf([]NodeStatus{older, newer})
	if len(list) != 1 || len(list[0].Views) != 2 {
		t.Fatalf("%+v", list)
	}
	const want = `who sees whom in unit a, as a-0001, a-0000 knew at 2026-01-02T03:04:06Z:
           1  2  3  SEEN BY  REPORT  UPLINK
1  a-0000  -  +  +  1 of 2   4s      yes
2  a-0001  +  -  ?  2 of 2   3s      yes
3  a-0002  x  +  -  1 of 2   1s      yes
` + legend + "\n"
	if got := text(t, list[0]); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	alone := text(t, MatricesOf([]NodeStatus{newer})[0])
	if !strings.Contains(alone, "1  a-0000  -  ~  ~  2 of 2   40s     yes") {
		t.Errorf("what is old is not marked:\n%s", alone)
	}
}

// Of a large unit only what is not well is named.
func TestLargeMatrix(t *testing.T) {
	s := told("a-0000", 1000, 10, base)
	if got := text(t, MatricesOf([]NodeStatus{s})[0]); !strings.HasSuffix(got, "1000 nodes; 1000 report to who said this\nall of them see whom they check\n") {
		t.Error(got)
	}
	for i := range 200 {
		s.Reports[i].Results[0].Answer = "no"
	}
	s.Reports = s.Reports[:998]
	got := text(t, MatricesOf([]NodeStatus{s})[0])
	for _, want := range []string{"998 report", "no new report: a-0998, a-0999\n", "a-0000  a-0001  no      3s\n", "and 100 more\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not say %q:\n%s", want, got)
		}
	}
	if lines := strings.Count(got, "\n"); lines > mostPairs+10 {
		t.Errorf("%d lines", lines)
	}
}

// Whatever somebody wrote is read, or refused with a field, and printed without a terminal's
// commands.
func FuzzRead(f *testing.F) {
	s := told("a-0000", 3, 2, base)
	data, err := json.Marshal(s)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("[" + string(data) + "]")
	f.Add(`[{"apiVersion":"v1","kind":"Node","metadata":{"name":"a\u001b","labels":{"unit":"a\n"},"annotations":{"superedgehealth/node-health":"true","superedgehealth/evidence":"yes=1 no=0 of=2"}},"status":{"conditions":[{"type":"Ready","status":"Unknown","lastTransitionTime":"2026-01-02T03:04:00Z"}]}},
		{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"x","labels":{"gridmesh.io/unit-lease":"a"}},"spec":{"holderIdentity":"a","renewTime":"2026-01-02T03:04:05.000000Z"}},
		{"apiVersion":"gridmesh.io/v1","kind":"NodeTable","metadata":{"name":"gridmesh-shield"},"data":{"a":"2026-01-02T03:09:05Z"}}]`)
	f.Fuzz(func(t *testing.T, text string) {
		var objects []map[string]any
		if json.Unmarshal([]byte(text), &objects) != nil {
			return
		}
		state, _ := Read(objects)
		state.UnitKeys()
		cfg := Default()
		cfg.UnitKey = "unit"
		r := Of(&state, cfg, base)
		var b strings.Builder
		for _, shown := range []Shown{{}, {true, true}} {
			if err := r.WriteText(&b, shown); err != nil {
				t.Fatal(err)
			}
		}
		for i := range state.Told {
			if err := state.Told[i].WriteText(&b); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.WriteNode(&b); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(b.String(), "\x1b\r\b") {
			t.Errorf("a terminal's command is printed: %q", b.String())
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	})
}

// Who is suspected is said with since when, and by a daemon that does not tell that with its rounds.
func TestSuspectsAreSaid(t *testing.T) {
	s, since := told("a-0000", 3, 2, base), base.Add(-95*time.Second)
	s.Members[1].Since, s.Members[1].Suspected = &since, 1
	s.Members[2].Suspected = 4
	var b strings.Builder
	if err := s.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"suspect   a-0001, since " + since.Format(time.RFC3339) + ", 1m35s ago\n", "suspect   a-0002, for 4 rounds\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("want %q:\n%s", want, b.String())
		}
	}
}
