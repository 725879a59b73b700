package routing

import (
	"fmt"
	"log/slog"

	"github.com/vishvananda/netlink"

	"github.com/gridmesh/gridmesh/internal/obs"
)

// mostSaid bounds the routes that are remembered as said.
const mostSaid = 100

// Removals says in a log which routes of others were removed: each once, however
// often somebody puts it back. It has one owner.
type Removals struct {
	log  *slog.Logger
	said map[string]bool
}

// NewRemovals takes a log; nil for none.
func NewRemovals(log *slog.Logger) *Removals {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Removals{log: log, said: map[string]bool{}}
}

func (r *Removals) say(table int, route netlink.Route) {
	name := fmt.Sprintf("table %d: %s", table, route)
	if r == nil || r.said[name] || len(r.said) > mostSaid {
		return
	}
	r.said[name] = true
	if len(r.said) > mostSaid {
		r.log.Warn("more routes that led captured packets elsewhere are removed, and not named")
		return
	}
	r.log.Warn("removed a route that led captured packets elsewhere", obs.KeyRoute, name)
}
