package grid

import (
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/gridmesh/gridmesh/grid/plan"
)

// Config is what the operator chose.
type Config struct {
	Guard    plan.Guard
	Parallel int // writes at once
	Log      *slog.Logger
	Metrics  *Metrics
	Events   Events
}

// BindGuard adds the flags of a guard; its values are their defaults.
func BindGuard(f *pflag.FlagSet, g *plan.Guard) {
	f.DurationVar(&g.Grace, "removal-grace", g.Grace, "how long a unit without nodes keeps its workloads")
	f.Float64Var(&g.Share, "removal-share", g.Share, "most of a grid's units that are removed at once, 0 to 1; one is always allowed")
}
