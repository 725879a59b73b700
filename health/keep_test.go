package health

import (
	"fmt"
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

// Who is in the unit is kept at once, and what the cloud says of them once in a while, however often
// that changes; at the end all of it.
func TestWordsAreKeptOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keeping{file: filepath.Join(t.TempDir(), "unit"), log: slog.New(slog.DiscardHandler)}
		kept := func(when, want string) {
			t.Helper()
			synctest.Wait()
			u, err := readUnit(k.file)
			if err != nil || u == nil {
				t.Fatal(u, err)
			}
			got := ""
			for _, m := range u.Members {
				got += m.Name + m.Verdict + " "
			}
			if got != want {
				t.Errorf("%s: %q is kept, want %q", when, got, want)
			}
		}
		says := func(verdict string, names ...string) {
			u := Unit{Name: "a"}
			for _, name := range names {
				u.Members = append(u.Members, Member{Name: name, Verdict: verdict})
			}
			k.take(u)
		}
		says("", "a-1", "a-2")
		for i := range 11 {
			says(fmt.Sprint(i), "a-1", "a-2")
			time.Sleep(wordsStand / 12)
		}
		kept("words", "a-1 a-2 ")
		time.Sleep(wordsStand / 11)
		kept("a minute later", "a-110 a-210 ")
		says("x", "a-1", "a-2")
		says("y", "a-1")
		kept("other nodes", "a-1y ")
		time.Sleep(2 * wordsStand)
		kept("nothing of before", "a-1y ")
		says("z", "a-1")
		kept("words again", "a-1y ")
		k.end()
		kept("the end", "a-1z ")
	})
}
