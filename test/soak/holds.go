package soak

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/test/soak/model"
)

const (
	// holdLook is how often agents are asked whether they hold anything.
	holdLook = time.Second
	// holdBefore is how long before it is seen an outage may have begun: its
	// silence, and the time between two signs of life.
	holdBefore = 40 * time.Second
)

// watchHolds notes when each agent holds endpoints of its own unit as they were
// before an outage: from the file that says so, or its status where the disk is
// full. What it holds may answer, though the cloud has it otherwise.
func (s *Soak) watchHolds(ctx context.Context, node string) {
	var since time.Time
	for ctx.Err() == nil {
		now := time.Now()
		switch holds := s.holds(ctx, node); {
		case holds && since.IsZero():
			since = now.Add(-holdBefore)
			s.mu.Lock()
			s.troubles = append(s.troubles, model.Trouble{Node: node, Effect: model.Holding, From: since})
			s.mu.Unlock()
		case !holds && !since.IsZero():
			s.mu.Lock()
			for i := range s.troubles {
				if t := &s.troubles[i]; t.Node == node && t.Effect == model.Holding && t.To.IsZero() {
					t.To = now
				}
			}
			s.mu.Unlock()
			since = time.Time{}
		}
		select {
		case <-time.After(holdLook):
		case <-ctx.Done():
		}
	}
}

// recorded reports whether a node has on disk that an outage, or what follows it, lasts.
func recorded(node string) bool {
	_, err := os.Stat(filepath.Join(stateDir(node), "outage"))
	return err == nil
}

// holds asks the disk first: an agent that does not run still holds in what
// Envoy has of it.
func (s *Soak) holds(ctx context.Context, node string) bool {
	if recorded(node) {
		return true
	}
	r, err := report.Ask(ctx, s.c.Nodes[node].Dir+"/agent.sock")
	return err == nil && r.Held != nil
}
