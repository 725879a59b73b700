package main

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node"
)

// locked is a capture that writes nothing while another agent keeps the rules
// of this network. The lock ends with the process: while it lives it may write.
type locked struct {
	*capture.Capture
	unlock func()
}

// Install implements node.Rules.
func (l *locked) Install(guard []netip.Prefix) error {
	if l.unlock == nil {
		unlock, err := capture.Lock()
		if errors.Is(err, run.ErrInUse) {
			return fmt.Errorf("%w: %w", node.ErrUnfit, err)
		}
		if err != nil {
			return err
		}
		l.unlock = unlock
	}
	return l.Capture.Install(guard)
}
