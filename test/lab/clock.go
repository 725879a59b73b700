package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// clock says what happens, with the time since the start.
type clock struct{ begin time.Time }

func (c *clock) say(format string, args ...any) {
	fmt.Printf("[%5.1fs] %s\n", time.Since(c.begin).Seconds(), fmt.Sprintf(format, args...))
}

// many calls f for 0 to n-1, 32 at a time.
func many(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	const writers = 32
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < n && errs[w] == nil; i += writers {
				errs[w] = f(ctx, i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func median[T cmp.Ordered](list []T) T { return percentile(list, 0.5) }

func percentile[T cmp.Ordered](list []T, p float64) T {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}
