package run

import (
	"context"
	"time"
)

// Pause waits, and reports false where ctx ended before.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
