package peer

import (
	"context"
	"errors"
	"testing"

	"github.com/gridmesh/gridmesh/health/vote"
)

// What there was no room to send says so: of the other node it says nothing.
func TestNoRoomToSend(t *testing.T) {
	l := newLab(t, nil, "a", "b")
	a := l.nodes["a"]
	for range mostAway {
		a.p.away <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.p.Report(ctx, "b", vote.Reported{}); !errors.Is(err, ErrNotSent) {
		t.Errorf("reported: %v", err)
	}
	if _, err := a.p.Ask(ctx, "b", []string{"a"}); !errors.Is(err, ErrNotSent) {
		t.Errorf("asked: %v", err)
	}
	<-a.p.away
	l.must("a", "b")
}
