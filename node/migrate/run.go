package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/node/report"
)

// Why a migration is not at its end.
var (
	// ErrBlocked: something has to be mended before any step.
	ErrBlocked = errors.New("this node cannot migrate as it is")
	// ErrYours: the next step is to be done by hand.
	ErrYours = errors.New("the next step is yours")
)

// lookEvery is how often a node is looked at that is waited for.
const lookEvery = time.Second

// agentLooks is how old an agent's word of a kube-proxy that runs may be: it looks every 5 s.
const agentLooks = 7 * time.Second

// Looker looks at a node.
type Looker interface {
	Look(ctx context.Context) (Seen, error)
}

// Run waits for the steps of a plan that come by themselves, one after another, and says so,
// until the next is nobody's or somebody's: then it is ErrYours, or what ended ctx. A look that
// fails is one more to wait for: an agent may be starting.
func Run(ctx context.Context, node Looker, want Want, w io.Writer) error {
	said, l := "", looking{node: node, want: want}
	for {
		next, err := l.next(ctx)
		if err == nil && next == "" {
			_, err = fmt.Fprintln(w, l.state) // it may lack something that is no step
		}
		if err != nil || next == "" {
			return err
		}
		if next != said {
			said = next
			fmt.Fprintln(w, next)
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", next, ctx.Err())
		}
	}
}

// looking is what is known from look to look.
type looking struct {
	node Looker
	want Want
	// state is the node's, in words, as of the last look.
	state string
	told  time.Time // when an agent said first that kube-proxy has to be stopped; zero: it did not
}

// next looks, and says what is waited for; "" where the node is there.
func (l *looking) next(ctx context.Context) (string, error) {
	seen, err := l.node.Look(ctx)
	if err != nil {
		return "wait until the node can be looked at: " + err.Error(), nil //nolint:nilerr // it is waited for, and so it is said
	}
	plan := Of(seen, l.want)
	l.state = plan.State
	switch {
	case len(plan.Blocked) > 0:
		return "", fmt.Errorf("%w: %s", ErrBlocked, plan.Blocked[0])
	case len(plan.Steps) == 0:
		return "", nil
	case strings.HasPrefix(plan.Steps[0].What, stopsProxy) && l.mayHaveEnded(seen):
		return "wait until the agent has looked again whether kube-proxy runs (" + seen.Alive + ")", nil
	case plan.Steps[0].Do == Yours:
		return "", fmt.Errorf("%w: %s: %s", ErrYours, plan.Steps[0].What, plan.Steps[0].Command)
	}
	return plan.Steps[0].What, nil
}

// mayHaveEnded reports whether a kube-proxy that is said to run may be none any more: the agent
// has not looked since. Of one whose end nothing shows it never says otherwise.
func (l *looking) mayHaveEnded(seen Seen) bool {
	if l.want.Back || !seen.Told || seen.Alive == "" || seen.Alive == report.ByRulesAlone {
		l.told = time.Time{}
		return false
	}
	if l.told.IsZero() {
		l.told = time.Now()
	}
	return time.Since(l.told) < agentLooks
}
