package health

import (
	"context"
	"time"

	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/kube"
)

// How the API server is asked whether it is there: often enough that a node knows of its own
// cut long before the cloud takes it for lost, within 12 s, by a page that costs it nothing.
const (
	uplinkEvery    = 5 * time.Second
	uplinkAgain    = time.Second // after a miss
	uplinkPatience = 3 * time.Second
	uplinkMisses   = 2 // in a row, before it counts as away
)

// FollowUplink tells whether this node reaches the API server, and why not, at first and
// whenever that changes, until ctx ends.
func FollowUplink(ctx context.Context, c *kube.Client, tell func(up bool, why error)) error {
	return followUplink(ctx, c.Answers, tell)
}

func followUplink(ctx context.Context, ask func(ctx context.Context) error, tell func(up bool, why error)) error {
	up, misses := false, 0
	for first := true; ; first = false {
		within, cancel := context.WithTimeout(ctx, uplinkPatience)
		err := ask(within)
		cancel()
		if misses++; err == nil {
			misses = 0
		}
		if is := misses == 0 || up && misses < uplinkMisses; (is != up || first) && ctx.Err() == nil {
			up = is
			tell(up, err)
		}
		wait := uplinkEvery
		if misses > 0 && misses < uplinkMisses {
			wait = uplinkAgain
		}
		if !run.Pause(ctx, wait) {
			return nil
		}
	}
}
