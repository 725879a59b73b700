package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Why a migration is not at its end.
var (
	// ErrBlocked: something has to be mended before any step.
	ErrBlocked = errors.New("this node cannot migrate as it is")
	// ErrYours: the next step is to be done by hand.
	ErrYours = errors.New("the next step is yours")
)

// How often the node is looked at that is waited for, and for how long there has to be no
// sign of kube-proxy before what it left is removed, as the agent has it.
const (
	lookEvery = time.Second
	quiet     = 5 * time.Second
)

// Looker looks at a node, and removes what kube-proxy left there.
type Looker interface {
	Look(ctx context.Context) (Seen, error)
	Remove() error
}

// Run does what of the plan can be done from the node, one step after another, and says so,
// until the next is nobody's or somebody else's: then it is ErrYours, or what ended ctx.
func Run(ctx context.Context, node Looker, want Want, w io.Writer) error {
	said := ""
	say := func(text string) {
		if text != said {
			said = text
			fmt.Fprintln(w, text)
		}
	}
	var silent time.Time // since when there is no sign of kube-proxy
	for {
		seen, err := node.Look(ctx)
		if err != nil {
			return err
		}
		now := time.Now()
		if seen.Alive != "" {
			silent = time.Time{}
		} else if silent.IsZero() {
			silent = now
		}
		plan := Of(seen, want)
		switch {
		case len(plan.Blocked) > 0:
			return fmt.Errorf("%w: %s", ErrBlocked, plan.Blocked[0])
		case len(plan.Steps) == 0:
			return nil
		}
		switch next := plan.Steps[0]; {
		case next.Do == Yours:
			return fmt.Errorf("%w: %s: %s", ErrYours, next.What, next.Command)
		case next.Do == Remove && now.Sub(silent) >= quiet:
			say(next.What)
			if err := node.Remove(); err != nil {
				return err
			}
			continue
		default:
			say(next.What)
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", plan.Steps[0].What, ctx.Err())
		}
	}
}
