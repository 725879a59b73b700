package health

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// LeaseName is the name of a unit's Lease: of a unit whose name is none for an object a hash
// is part of it.
func LeaseName(unit string) string {
	if subdomain.MatchString(unit) {
		return "edge-health-" + unit
	}
	sum := sha256.Sum256([]byte(unit))
	readable := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(unit), "-"), "-")
	return strings.Trim("edge-health-"+readable, "-") + "--" + hex.EncodeToString(sum[:5])
}

// HoldLease holds the Lease of a node's unit while it may, and tells until when it does,
// until ctx ends.
func HoldLease(ctx context.Context, c *kube.Client, namespace, node string, units <-chan string, may <-chan bool, tell func(until time.Time), log logger) error {
	unit, allowed := "", false
	for ended := false; !ended; {
		within, end := context.WithCancel(ctx)
		over := make(chan struct{})
		if unit != "" && allowed {
			go func(unit string) {
				defer close(over)
				hold(within, c, namespace, node, unit, tell, log)
			}(unit)
		} else {
			close(over)
		}
		for same := true; same && !ended; {
			select {
			case next := <-units: // whenever anything of the unit changes
				same, unit = next == unit, next
			case next := <-may:
				same, allowed = next == allowed, next
			case <-ctx.Done():
				ended = true
			}
		}
		end()
		<-over
		tell(time.Time{})
	}
	return nil
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
