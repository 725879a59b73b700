package main

import (
	"errors"
	"fmt"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node"
)

// lockNetwork keeps other agents, whatever their directories and sockets, from
// the rules of this network.
func lockNetwork() (unlock func(), err error) {
	unlock, err = capture.Lock()
	if errors.Is(err, run.ErrInUse) {
		return nil, fmt.Errorf("%w: %w", node.ErrUnfit, err)
	}
	return unlock, err
}
