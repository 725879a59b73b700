package cloud

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/internal/testkit"
	leading "github.com/gridmesh/gridmesh/kube/lead"
)

// What the API server does not have is told once, and once it has it; a start that takes a moment
// is no failure, and one that goes on is told now and then.
func TestPoliciesAreToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log testkit.Output
		p := policies{log: slog.New(slog.NewTextHandler(&log, nil))}
		had := 0
		said := func(when string, lines int, words string) {
			t.Helper()
			text := log.String()[had:]
			had += len(text)
			if got := strings.Count(text, "\n"); got != lines || !strings.Contains(text, words) {
				t.Errorf("%s: %d lines, want %d with %q:\n%s", when, got, lines, words, text)
			}
		}
		old := leading.Installed{Kept: 10, Unserved: []string{"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}, Left: 4}
		refused := errors.New("forbidden")
		for range 20 {
			p.tell(leading.Installed{}, refused)
			time.Sleep(policiesAgain)
		}
		said("a start", 0, "")
		for range 20 {
			p.tell(old, nil)
			time.Sleep(policiesEvery)
		}
		said("an old API server", 1, "webhook gridmesh-admission")
		for range 20 {
			p.tell(leading.Installed{Kept: 14}, nil)
			time.Sleep(policiesEvery)
		}
		said("it was updated", 1, "are installed")
		for range 5 * int(policiesStart/policiesAgain) {
			p.tell(leading.Installed{}, refused)
			time.Sleep(policiesAgain)
		}
		said("they are refused", 5, "forbidden")
		p.tell(leading.Installed{Kept: 14}, nil)
		said("and are not", 0, "")
	})
}
