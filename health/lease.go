package health

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/kube"
)

type logger = *slog.Logger

// subdomain is what a Lease may be named.
var subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// LeaseName is the name of a unit's Lease: of a unit whose name is none for an object a hash
// is part of it.
func LeaseName(unit string) string {
	unit = short(unit)
	if subdomain.MatchString(unit) {
		return "edge-health-" + unit
	}
	sum := sha256.Sum256([]byte(unit))
	readable := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(unit), "-"), "-")
	return strings.Trim("edge-health-"+readable, "-") + "--" + hex.EncodeToString(sum[:5])
}

// labelValue is what may be the value of a label.
var labelValue = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// short is what a unit is called at its Lease: its name, or a hash of it where that can be no
// label's value. So are those of nodes in several NodeUnits, all of whose names are in it.
func short(unit string) string {
	if labelValue.MatchString(unit) {
		return unit
	}
	sum := sha256.Sum256([]byte(unit))
	return "units-" + hex.EncodeToString(sum[:10])
}

// HoldLease holds the Lease of a node's unit while it may, and tells until when it does,
// until ctx ends. Of whom quits tells, that one's Lease need not grow old first.
func HoldLease(ctx context.Context, c *kube.Client, namespace, node string, units <-chan string, may <-chan bool, quits <-chan Quit, tell func(until time.Time), log logger) error {
	holdWhile(ctx, units, may, func(ctx context.Context, unit string) {
		h := holding{api: c.Leases.Leases(namespace), node: node, unit: unit, quits: quits, tell: tell, log: log}
		h.run(ctx)
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
