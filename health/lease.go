package health

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/kube"
	leading "github.com/gridmesh/gridmesh/kube/lead"
)

// How a unit's Lease is held, as Kubernetes' own leaders hold theirs.
const (
	leaseFor   = 15 * time.Second
	leaseRenew = 10 * time.Second
	leaseTry   = 2 * time.Second
)

type logger = *slog.Logger

// subdomain is what a Lease may be named.
var subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// readable is what may be in any name of an object.
var readable = regexp.MustCompile(`[a-z0-9]+`)

// LeaseName is the name of a unit's Lease, of no other unit's. Where the unit's own is none for
// an object it is there in hex, behind what people can read of it. The policy
// gridmesh-votes-lease-unit says the same in CEL.
func LeaseName(unit string) string {
	if subdomain.MatchString(unit) {
		return "edge-health-" + unit
	}
	parts := strings.Join(readable.FindAllString(strings.ToLower(unit), -1), "-")
	return fmt.Sprintf("edge-health.%s.%x", parts, unit)
}

// HoldLease holds the Lease of a node's unit while it may, and tells until when it does,
// until ctx ends.
func HoldLease(ctx context.Context, c *kube.Client, namespace, node string, units <-chan string, may <-chan bool, tell func(until time.Time), log logger) error {
	holdWhile(ctx, units, may, func(ctx context.Context, unit string) {
		hold(ctx, c, namespace, node, unit, tell, log)
	})
	return nil
}

// holdWhile has a unit's Lease held while this node is in the unit, and may. Who is told the
// same again holds on: a Lease that is given back is anybody's, and the unit may have no
// writer until another one has it.
func holdWhile(ctx context.Context, units <-chan string, may <-chan bool, hold func(ctx context.Context, unit string)) {
	unit, allowed := "", false
	for ctx.Err() == nil {
		within, end := context.WithCancel(ctx)
		over := make(chan struct{})
		if unit != "" && allowed {
			go func(unit string) {
				defer close(over)
				hold(within, unit)
			}(unit)
		} else {
			close(over)
		}
		for was, had := unit, allowed; unit == was && allowed == had && ctx.Err() == nil; {
			select {
			case unit = <-units:
			case allowed = <-may:
			case <-ctx.Done():
			}
		}
		end()
		<-over
	}
}

// hold holds a Lease, or waits for it, until ctx ends.
func hold(ctx context.Context, c *kube.Client, namespace, node, unit string, tell func(until time.Time), log logger) {
	for {
		err := leading.Run(ctx, c, leading.Election{
			Namespace: namespace, Name: LeaseName(unit), Identity: node, Lease: leaseFor, Renew: leaseRenew, RetryWait: leaseTry,
			Labels:  map[string]string{names.UnitLease: unit},
			Renewed: func(at time.Time) { tell(at.Add(leaseRenew)) },
		}, func(ctx context.Context) error {
			log.Info("this node writes the verdicts of its unit", obs.KeyUnit, unit)
			<-ctx.Done()
			return nil
		})
		tell(time.Time{})
		if err != nil && ctx.Err() == nil {
			log.Info("this node writes the verdicts of its unit no more", obs.KeyUnit, unit, obs.KeyErr, err)
		}
		if !run.Pause(ctx, leaseTry) {
			return
		}
	}
}
