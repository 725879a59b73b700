package health

import (
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// A node that is in no unit for a moment starts without a cloud by the unit it was in.
func TestAnEmptyUnitHasToStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keeping{file: filepath.Join(t.TempDir(), "unit"), log: slog.New(slog.DiscardHandler)}
		kept := func(when string, members int) {
			t.Helper()
			synctest.Wait()
			u, err := readUnit(k.file)
			if err != nil || u == nil || len(u.Members) != members {
				t.Errorf("%s: %v is kept (%v), want %d members", when, u, err, members)
			}
		}
		three := Unit{Name: "a", Members: []Member{{Name: "a-1"}, {Name: "a-2"}, {Name: "a-3"}}}
		k.take(Unit{})
		kept("the first one", 0)
		k.take(three)
		kept("a whole one", 3)
		for range 3 {
			k.take(Unit{})
			time.Sleep(emptyStands - 1)
			kept("an empty one, for less than a minute", 3)
			k.take(three)
			time.Sleep(2 * emptyStands)
			kept("a whole one again", 3)
		}
		k.take(Unit{})
		time.Sleep(emptyStands / 2)
		k.take(Unit{Name: "b"})
		time.Sleep(emptyStands / 2)
		kept("another empty one", 3)
		time.Sleep(emptyStands / 2)
		kept("and that stood", 0)
		k.take(three)
		k.take(Unit{})
		k.end()
		time.Sleep(2 * emptyStands)
		kept("the end", 3)
	})
}
