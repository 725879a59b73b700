package run

import (
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/gridmesh/gridmesh/internal/obs"
)

// Ignored are flags of another program that mean nothing here, each with why. They are
// accepted, so that its manifests go on working.
type Ignored map[string]string

// Klog are those of Kubernetes' logging, and of programs that log by it.
var Klog = Ignored{
	"v": "see --verbose", "vmodule": "see --verbose", "logtostderr": "the log goes there", "alsologtostderr": "the log goes there",
	"stderrthreshold": "the log goes there", "log-dir": "the log goes to stderr", "log-file": "the log goes to stderr", "log-file-max-size": "the log goes to stderr",
	"one-output": "the log goes to stderr", "add-dir-header": "lines have their own form", "skip-headers": "lines have their own form", "skip-log-headers": "lines have their own form",
	"log-backtrace-at": "see --verbose", "log-flush-frequency": "nothing is held back",
}

// Bind adds them, hidden. A flag that is there already means something, and stays.
func (i Ignored) Bind(f *pflag.FlagSet) {
	for name, why := range i {
		if f.Lookup(name) != nil {
			continue
		}
		f.String(name, "", "ignored: "+why)
		f.Lookup(name).NoOptDefVal = "true" // klog has --logtostderr
		_ = f.MarkHidden(name)
	}
}

// Tell logs which of them were given.
func (i Ignored) Tell(f *pflag.FlagSet, log *slog.Logger) {
	f.Visit(func(flag *pflag.Flag) {
		if why, ok := i[flag.Name]; ok && flag.Hidden {
			log.Warn("a flag of SuperEdge is ignored", obs.KeyFlag, "--"+flag.Name, obs.KeyWhy, why)
		}
	})
}
