package soak

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/soak/model"
	"github.com/gridmesh/gridmesh/test/soak/script"
)

// What must not answer is told with what it was judged by, each Service once and
// a few of them, however much there is of one.
func TestWrongAnswersAreExplained(t *testing.T) {
	s := &Soak{
		world: script.Small(), say: t.Logf, steady: netip.MustParseAddrPort("10.96.0.99:80"),
		history: model.NewHistory("unit"), told: map[string]*model.Told{"a-1": model.NewTold("a-1")},
		pods: map[string]*pod{"b-1": {name: "steady-b", node: "b-1", ip: netip.MustParseAddr("10.20.2.2")}},
	}
	var list []dial
	for i := range 40 {
		at := time.Now()
		list = append(list, dial{node: "a-1", from: "node a-1", to: frontendOf([]string{"s0", "s1", "s2", "s3"}[i/10]), began: at, ended: at, answered: "steady-b"})
	}
	var v *Violation
	if err := s.judgeThese(list, nil); !errors.As(err, &v) || v.Judge != "answers" {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"40 times", "of b-1", "10.96.0.100 is no Service's", "10.96.0.101 is no Service's", "10.96.0.102 is no Service's"} {
		if n := strings.Count(v.Text, want); n == 0 || n > 1 && want != "of b-1" {
			t.Errorf("%d times %q in\n%s", n, want, v.Text)
		}
	}
	if n := strings.Count(v.Text, "may have had"); n != explains {
		t.Errorf("%d are explained, want %d:\n%s", n, explains, v.Text)
	}
}

// The page has as many plants as there are, and a plant for each judge that it names.
func TestPageHasThePlants(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(edge.Root(), "docs", "testing.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("by something planted, %d in all:", len(plants)); !strings.Contains(string(page), want) {
		t.Errorf("docs/testing.md does not say %q", want)
	}
	if regexp.MustCompile(`\b\d+ plants`).Match(page) {
		t.Error("docs/testing.md counts plants in another place, too: nobody keeps that true")
	}
	_, table, _ := strings.Cut(string(page), "| judge | what must not be |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	judges := regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(table, -1)
	if len(judges) < 6 {
		t.Errorf("docs/testing.md names the judges %q", judges)
	}
	for _, m := range judges {
		if !slices.ContainsFunc(plants, func(p plant) bool { return p.judge == m[1] }) {
			t.Errorf("nothing is planted for %s", m[1])
		}
	}
}
