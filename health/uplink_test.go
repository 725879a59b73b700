package health

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A node finds out within 12 s that it is cut off, whenever that happens, and within 8 s that it is
// not any more; one answer that gets lost says nothing.
func TestAnUplinkIsFollowed(t *testing.T) {
	for phase := range 25 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var cut, lose atomic.Bool
			ask := func(ctx context.Context) error {
				if cut.Load() || lose.Swap(false) {
					<-ctx.Done()
					return errors.New("no answer")
				}
				return nil
			}
			var mu sync.Mutex
			var up []bool
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = followUplink(ctx, ask, func(is bool, _ error) {
					mu.Lock()
					defer mu.Unlock()
					up = append(up, is)
				})
			}()
			told := func(want ...bool) {
				t.Helper()
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				if len(up) != len(want) || up[len(up)-1] != want[len(want)-1] {
					t.Errorf("told %v, want %v", up, want)
				}
			}
			time.Sleep(time.Minute)
			lose.Store(true)
			time.Sleep(30*time.Second + time.Duration(phase)*200*time.Millisecond)
			told(true)
			cut.Store(true)
			time.Sleep(12 * time.Second)
			told(true, false)
			cut.Store(false)
			time.Sleep(8 * time.Second)
			told(true, false, true)
			cancel()
			<-ended
		})
	}
}
