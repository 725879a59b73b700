package told

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func of(members int, dead ...string) Word {
	w := Word{Version: 1, Node: "a-1", Unit: "a", Members: members, Written: at, Dead: []Dead{}}
	for _, name := range dead {
		w.Dead = append(w.Dead, Dead{name, at})
	}
	return w
}

func TestAWordIsReadAsItWasSaid(t *testing.T) {
	for _, w := range []Word{of(0), of(5, "a-2", "a-3"), of(2, "a-2")} {
		data, err := w.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decode(data); err != nil || !reflect.DeepEqual(got, w) {
			t.Errorf("said %+v, read %+v, %v", w, got, err)
		}
	}
	newer := strings.Replace(string(encoded(t, of(5, "a-2"))), `"node"`, `"later": {}, "node"`, 1)
	if _, err := Decode([]byte(newer)); err != nil {
		t.Errorf("a field of a newer daemon: %v", err)
	}
}

func encoded(t *testing.T, w Word) []byte {
	t.Helper()
	data, err := w.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// What no vote says is refused, by who writes and by who reads.
func TestWhatIsRefused(t *testing.T) {
	many := of(mostMembers)
	for i := range mostMembers / 2 {
		many.Dead = append(many.Dead, Dead{fmt.Sprint("a-very-long-name-of-a-node-", i), at})
	}
	for _, w := range []Word{
		of(3, "a-2", "a-3"), of(0, "a-2"), of(1, "a-2"), of(4, "a-1"), of(4, "a-2", "a-2"), of(4, ""), of(4, "a 2"), of(4, strings.Repeat("a", 254)), of(-1), of(mostMembers + 1),
		{Node: "a-1", Members: 1},
	} {
		if data, err := w.Encode(); !errors.Is(err, ErrWord) {
			t.Errorf("%.200s: %v", data, err)
		}
	}
	good := string(encoded(t, of(5, "a-2")))
	for name, text := range map[string]string{
		"nothing": "", "cut off": good[:len(good)/2], "twice": good + good, "another version": strings.Replace(good, `"version": 1`, `"version": 2`, 1),
		"more than half": strings.Replace(good, `"members": 5`, `"members": 1`, 1), "a list": "[]", "too long": good + strings.Repeat(" ", MaxSize),
	} {
		if w, err := Decode([]byte(text)); !errors.Is(err, ErrWord) {
			t.Errorf("%s: %+v, %v", name, w, err)
		}
	}
	if data, err := many.Encode(); !errors.Is(err, ErrWord) {
		t.Errorf("%d bytes: %v", len(data), err)
	}
}

// A word counts once another has come before it, and for so long.
func TestEar(t *testing.T) {
	var e Ear
	said := func(n int, dead ...string) Word {
		w := of(5, dead...)
		w.Written = at.Add(-time.Duration(n) * time.Hour) // a clock that goes backwards, for all that matters
		return w
	}
	now := at
	steps := []struct {
		after time.Duration
		say   Word
		until time.Duration // that it counts from now on
		dead  int
	}{
		{0, said(1, "a-2"), 0, 0}, // of any age
		{time.Hour, said(1, "a-2"), 0, 0},
		{time.Second, said(2, "a-2", "a-3"), Fresh, 2},
		{Fresh / 2, said(2, "a-2", "a-3"), Fresh - Fresh/2, 2},
		{Every, said(3), Fresh, 0},
		{Every, said(4, "a-2"), Fresh, 1},
		{Fresh, said(4, "a-2"), 0, 0},
		{time.Hour, said(4, "a-2"), 0, 0},
		{time.Hour, said(5, "a-2"), Fresh, 1},
	}
	for i, s := range steps {
		now = now.Add(s.after)
		e.Hear(now, s.say)
		h := e.Heard()
		if got := h.At(now); len(got) != s.dead {
			t.Errorf("step %d: %d dead, want %d", i, len(got), s.dead)
		}
		if got := max(0, h.Until.Sub(now)); got != s.until {
			t.Errorf("step %d: counts for %s, want %s", i, got, s.until)
		}
	}
}

// Whatever the file holds, it is refused or is what a vote may say.
func FuzzDecode(f *testing.F) {
	for _, w := range []Word{of(0), of(5, "a-2"), of(2, "a-2")} {
		data, _ := w.Encode()
		f.Add(data)
	}
	f.Add([]byte(`{"version":1,"members":2,"written":"2026-01-02T03:04:05Z","dead":[{"node":"x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := Decode(data)
		if err != nil {
			if !errors.Is(err, ErrWord) {
				t.Errorf("%v is no ErrWord", err)
			}
			return
		}
		if 2*len(w.Dead) > w.Members || len(data) > MaxSize {
			t.Errorf("%d dead of %d", len(w.Dead), w.Members)
		}
		again, err := w.Encode()
		if err != nil {
			return // its times are none that can be written
		}
		if back, err := Decode(again); len(again) <= MaxSize && (err != nil || len(back.Dead) != len(w.Dead)) {
			t.Errorf("read %+v, written and read again %+v, %v", w, back, err)
		}
	})
}
