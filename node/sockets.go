package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/quiet"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node/statedir"
)

// socketDir is the finding where a directory takes no socket.
const socketDir capture.FindingKind = "socket-dir"

// socketsEvery is how often it is tried again.
const socketsEvery = 2 * time.Second

// waitsForDisk reports whether a server is one that a disk keeps from its socket: as a full or
// read-only /run does at a boot. No node waits for that without its guard.
func (s *server) waitsForDisk(err error) bool { return s.missing != nil && statedir.DiskFails(err) }

// serveAgain serves once the directory takes the socket.
func (a *Agent) serveAgain(ctx context.Context, s server, err error) error {
	var said quiet.Line
	for {
		text := fmt.Sprintf("--%s %s cannot be made, and is tried again: %v: nobody is answered there, and the node is guarded and, by the kernel path, served: make room in its directory, or give another one", s.flag, s.address, err)
		said.Say(a.log.Error, "a socket cannot be made; trying again", obs.KeyName, s.name, obs.KeyErr, err)
		a.show(a.found.replace(s.missing, []capture.Finding{{Kind: socketDir, Text: text}}))
		if !run.Pause(ctx, socketsEvery) {
			return nil
		}
		l, again := s.listen(s.address, a.log)
		switch {
		case again == nil:
			a.found.replace(s.missing, nil)
			a.log.Info("a socket could be made", obs.KeyName, s.name)
			return run.ServeUntil(ctx, l, s.serve)
		case errors.Is(again, ErrUnfit):
			return again
		}
		err = again
	}
}
