package cloud

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/quiet"
	"github.com/gridmesh/gridmesh/internal/run"
	leading "github.com/gridmesh/gridmesh/kube/lead"
)

const (
	// policiesEvery is how often the policies are looked at, and policiesAgain where they could
	// not be installed. An API server learns of a parameter's kind within 30 s, and refuses a
	// policy with one that it does not know: what fails for no longer than policiesStart is not told.
	policiesEvery = 30 * time.Second
	policiesAgain = 2 * time.Second
	policiesStart = time.Minute
)

// mutating is the kind of the policies that shield nodes.
const mutating = "MutatingAdmissionPolicy"

// Policies installs admission policies, and brings back what others change of them, until ctx
// ends. Of those that it does not know it takes no notice, and it removes none.
func Policies(ctx context.Context, o *leading.Objects, log *slog.Logger, m *Metrics) error {
	o.Wrote = func(err error) { m.wrote("policy", err) }
	p := policies{log: log}
	for wait := time.Duration(0); run.Pause(ctx, wait); {
		look, cancel := context.WithTimeout(ctx, patience)
		done, err := o.Install(look)
		if cancel(); ctx.Err() == nil {
			m.installed(done)
			p.tell(done, err)
		}
		if wait = policiesEvery; err != nil {
			wait = policiesAgain
		}
	}
	return nil
}

// policies is what was said of them.
type policies struct {
	log      *slog.Logger
	begun    time.Time // of failures in a row; zero: the last look did not fail
	failing  quiet.Line
	unserved []string
	said     bool
}

// tell tells what has changed.
func (p *policies) tell(done leading.Installed, err error) {
	switch now := time.Now(); {
	case err == nil:
		p.begun = time.Time{}
	case p.begun.IsZero():
		p.begun = now
	case now.Sub(p.begun) > policiesStart:
		p.failing.Say(p.log.Error, "not all admission policies are installed; it is tried again", obs.KeyErr, err)
	}
	if err != nil || p.said && slices.Equal(p.unserved, done.Unserved) {
		return
	}
	p.said, p.unserved = true, done.Unserved
	switch {
	case slices.Contains(done.Unserved, mutating):
		p.log.Warn("the API server has no MutatingAdmissionPolicy (Kubernetes 1.36): pods of shielded nodes stay by the webhook gridmesh-admission alone", obs.KeyWhich, strings.Join(done.Unserved, ", "))
	case len(done.Unserved) > 0:
		p.log.Warn("the API server does not have all kinds of admission policies: votes are not held to their units", obs.KeyWhich, strings.Join(done.Unserved, ", "))
	default:
		p.log.Info("the admission policies are installed")
	}
}
