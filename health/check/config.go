package check

import (
	"errors"
	"fmt"
	"time"
)

// Config is which probes there are. All nodes of a unit are to have the same.
type Config struct {
	// Ping, Kubelet and KubeletAuth are the values of the flags pingplugin, kubeletplugin
	// and kubeletauthplugin. Where none is given Ping is, as it is by default.
	Ping, Kubelet, KubeletAuth Plugin
	// ScoreLine is what the probes' scores have to reach together: a hundred times its
	// weight for each that found the node well.
	ScoreLine float64
	// Within is how long the check of a node takes at most, with all retries. The unit's
	// answers are waited for a little longer (vote.Config.AskFor).
	Within time.Duration
	// Parallel is how many nodes a round checks at once.
	Parallel int
	// Credentials are shown to kubelets by KubeletAuth.
	Credentials Credentials
}

// Default has SuperEdge's line, and no probe yet.
func Default() Config {
	return Config{
		Ping: NewPlugin(kubeletPort), Kubelet: NewPlugin(readOnlyPort), KubeletAuth: NewPlugin(kubeletPort),
		ScoreLine: 100, Within: 4 * time.Second, Parallel: 100,
	}
}

// The kubelet's own ports.
const (
	kubeletPort  = 10250
	readOnlyPort = 10255
)

// Validate reports all that is wrong, by the names of the flags.
func (c Config) Validate() error {
	var errs []error
	sum := 0.0
	for _, k := range kinds {
		p := k.of(&c)
		if !p.On {
			continue
		}
		sum += p.Weight
		if err := p.validate(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", k.flag, err))
		}
	}
	switch {
	case !(c.ScoreLine > 0 && c.ScoreLine <= mostScore):
		errs = append(errs, fmt.Errorf("a score line of %g: must be more than 0, and %d at most", c.ScoreLine, mostScore))
	case sum > 0 && !reaches(100*sum, c.ScoreLine):
		errs = append(errs, fmt.Errorf("no node could ever be well: weights of %g give a score of %g, and the line is %g", sum, 100*sum, c.ScoreLine))
	}
	if c.Within <= 0 {
		errs = append(errs, fmt.Errorf("a check takes %s: must be positive", c.Within))
	}
	if c.Parallel < 1 {
		errs = append(errs, fmt.Errorf("%d nodes at once: one is the least", c.Parallel))
	}
	return errors.Join(append(errs, c.Credentials.validate())...)
}

// mostScore is that of all probes with the largest weight.
const mostScore = 100 * mostWeight * 3

// reaches reports whether a score reaches the line, but for what adding fractions loses:
// 0.7, 0.2 and 0.1 are a little less than one.
func reaches(score, line float64) bool { return score >= line-1e-6 }

// plugins are those that are on.
func (c *Config) plugins() (list []kind) {
	for _, k := range kinds {
		if k.of(c).On {
			list = append(list, k)
		}
	}
	return list
}
