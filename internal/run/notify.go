package run

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/gridmesh/gridmesh/internal/obs"
)

// Supervised tells systemd, where that started the process (Type=notify), that
// it is ready; with WatchdogSec, for as long as it is alive, that too; and at the
// end of ctx that it stops. A process that nothing supervises waits for the end.
// alive is asked by one goroutine.
func Supervised(ctx context.Context, log *slog.Logger, alive func() bool) error {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil { // a courtesy ends no process
		log.Warn("what systemd wants to hear, and how often, is not understood; it is not told that this process is alive", obs.KeyErr, err)
		interval = 0
	}
	tell := func(state string) {
		if _, err := daemon.SdNotify(false, state); err != nil {
			log.Warn("systemd does not take what it is told, and may restart this process for that", obs.KeyErr, fmt.Errorf("%s: %w", state, err))
		}
	}
	tell(daemon.SdNotifyReady)
	defer tell(daemon.SdNotifyStopping)
	if interval == 0 {
		<-ctx.Done()
		return nil
	}
	// A third, so that one that comes late ends nothing.
	tick := time.NewTicker(interval / 3)
	defer tick.Stop()
	for {
		if alive() {
			tell(daemon.SdNotifyWatchdog)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
