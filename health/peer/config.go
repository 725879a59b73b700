package peer

import (
	"errors"
	"fmt"
	"time"
)

// Port is SuperEdge's.
const Port = 51005

// Dialect is in which form SuperEdge's own messages are sent; all are taken where it is not None.
type Dialect string

// Dialects.
const (
	None Dialect = ""
	G1   Dialect = "v0.7" // up to v0.7: names as in Go, times as text
	G2   Dialect = "v0.8" // from v0.8 on: names in lower camel case, Unix times
)

// Config is what the operator chose.
type Config struct {
	// Port is where all nodes of the unit listen.
	Port uint16
	// Legacy takes part in a unit where some nodes still run SuperEdge's edge-health.
	Legacy Dialect
	// LegacyFresh is how long a SuperEdge node's report is its answer to questions, where it
	// takes none: up to v0.7.
	LegacyFresh time.Duration
	// KubeletPort is what a SuperEdge node that is asked about others dials.
	KubeletPort uint16
	// NAT takes what comes from an address that is not the sender's.
	NAT bool
	// ReportTimeout is how long a Report takes at most, AskTimeout an Ask: less than what asks waits
	// (vote.Config.AskFor), so that who does not answer takes no room of the next question.
	ReportTimeout, AskTimeout time.Duration
}

// Default is for a unit without SuperEdge's own nodes.
func Default() Config {
	return Config{Port: Port, LegacyFresh: 70 * time.Second, KubeletPort: 10250, ReportTimeout: 3 * time.Second, AskTimeout: 4500 * time.Millisecond}
}

// Validate reports all that is wrong.
func (c Config) Validate() error {
	var errs []error
	if c.Port == 0 || c.KubeletPort == 0 {
		errs = append(errs, errors.New("a port of 0"))
	}
	if c.Legacy != None && c.Legacy != G1 && c.Legacy != G2 {
		errs = append(errs, fmt.Errorf("no SuperEdge sends as %q: it is %s or %s", c.Legacy, G1, G2))
	}
	if c.LegacyFresh <= 0 {
		errs = append(errs, fmt.Errorf("a SuperEdge node's report counts for %s: must be positive", c.LegacyFresh))
	}
	if c.ReportTimeout <= 0 || c.AskTimeout <= 0 {
		errs = append(errs, fmt.Errorf("timeouts of %s and %s: must be positive", c.ReportTimeout, c.AskTimeout))
	}
	return errors.Join(errs...)
}
