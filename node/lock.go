package node

import (
	"errors"
	"fmt"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node/statedir"
)

// Lock keeps a second agent, and a cleanup beside a running one, from a node:
// ErrUnfit. Where statedir.DiskFails of another error, the lock of the network
// alone keeps them apart.
func Lock(stateDir string) (unlock func(), err error) { return unfit(statedir.Lock(stateDir)) }

// LockNetwork keeps other agents, whatever their directories and sockets, from
// the rules of this network: ErrUnfit.
func LockNetwork() (unlock func(), err error) { return unfit(capture.Lock()) }

// unfit says of a lock that another agent has that this node is not to be served.
func unfit(unlock func(), err error) (func(), error) {
	if errors.Is(err, run.ErrInUse) {
		return nil, fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	return unlock, err
}
