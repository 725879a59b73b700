// Package outage is what tests of a heal share: how long an uplink is away, and
// an app that Kubernetes may take away meanwhile.
package outage

import (
	"fmt"
	"os"
	"time"
)

// Patience is how long Kubernetes leaves pods on nodes that it gave up, where
// their template says nothing.
const Patience = 5 * time.Minute

// env says how long the uplink is cut: "5m".
const env = "HEAL_CUT"

// shortest is longer than the test cluster's cloud waits for a node.
const shortest = 65 * time.Second

// kubernetesGrace is how long Kubernetes' own cloud waits for a silent node. Of
// a long cut that counts: with the 20 s of the test cluster pods would be
// deleted half a minute sooner than anywhere else.
const kubernetesGrace = 50 * time.Second

// Length is how long a test of a heal cuts an uplink, and how long the cloud of
// its cluster waits for a silent node, 0 for the test cluster's own.
func Length() (cut, grace time.Duration, err error) {
	text := os.Getenv(env)
	if text == "" {
		return shortest, 0, nil
	}
	cut, err = time.ParseDuration(text)
	if err == nil && cut < shortest {
		err = fmt.Errorf("the cloud would not give the unit up; %s at least", shortest)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%s=%s: %w", env, text, err)
	}
	return cut, kubernetesGrace, nil
}
