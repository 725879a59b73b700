package table

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// version is a frozen map beside what it must hold.
type version struct {
	real *Map[int, int]
	twin twin
}

func (v version) check(t *testing.T) {
	t.Helper()
	if v.real.Len() != len(v.twin) {
		t.Fatalf("%d entries, want %d", v.real.Len(), len(v.twin))
	}
	if got := maps.Collect(v.real.All()); !maps.Equal(got, v.twin) {
		t.Fatalf("holds %v, want %v", got, v.twin)
	}
	for k, want := range v.twin {
		if got, ok := v.real.Get(k); !ok || got != want {
			t.Fatalf("key %d: %d, %v, want %d", k, got, ok, want)
		}
	}
}

func (v version) checkChanged(t *testing.T, next version) {
	t.Helper()
	got, want := slices.Sorted(v.real.Changed(next.real)), slices.Sorted(v.twin.changed(next.twin))
	if !slices.Equal(got, want) {
		t.Fatalf("changed %v, want %v", got, want)
	}
}

// history plays steps, three bytes each, on an edit and on its twin: it sets,
// deletes, freezes, and goes back to edit a version of before.
func history(t *testing.T, steps []byte) {
	t.Helper()
	versions := []version{{nil, twin{}}}
	edit, want := versions[0].real.Edit(), versions[0].twin.edit()
	freeze := func() {
		v := version{edit.Freeze(), want.edit()}
		v.check(t)
		v.checkChanged(t, versions[len(versions)-1])
		versions[len(versions)-1].checkChanged(t, v)
		versions = append(versions, v)
	}
	for ; len(steps) >= 3; steps = steps[3:] {
		key, value := int(steps[1]), int(steps[2]%4)
		switch steps[0] % 8 {
		default:
			edit.Set(key, value)
			want[key] = value
		case 3, 4:
			edit.Delete(key)
			delete(want, key)
		case 5, 6:
			freeze()
		case 7:
			from := versions[key%len(versions)]
			edit, want = from.real.Edit(), from.twin.edit()
		}
		got, ok := edit.Get(key)
		if v, has := want[key]; v != got || has != ok {
			t.Fatalf("key %d in the edit: %d, %v, want %d, %v", key, got, ok, v, has)
		}
	}
	freeze()
	// No version was touched by what came after it, and any two compare.
	for i, v := range versions {
		v.check(t)
		v.checkChanged(t, versions[(i*7+3)%len(versions)])
	}
}

func TestLikeItsTwin(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		steps := make([]byte, 3*(1+random.IntN(400)))
		for i := range steps {
			steps[i] = byte(random.Uint32())
		}
		history(t, steps)
	}
}

func FuzzLikeItsTwin(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 1, 1, 5, 0, 0, 0, 1, 2, 5, 0, 0, 3, 1, 0}) // set, freeze, set, freeze, delete
	f.Add([]byte{0, 1, 1, 5, 0, 0, 7, 0, 0, 0, 1, 1, 5, 0, 0}) // the same in two that stem from nothing
	f.Add([]byte{3, 9, 0, 5, 0, 0, 0, 9, 0, 3, 9, 0, 5, 0, 0}) // gone before it was there
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) > 3*500 { // a version is checked whole
			return
		}
		history(t, steps)
	})
}

func TestNoMapIsEmpty(t *testing.T) {
	var none *Map[string, int]
	if v, ok := none.Get("a"); ok || v != 0 || none.Len() != 0 || len(none.SortedKeys(cmp.Compare)) != 0 {
		t.Error("it holds something")
	}
	for range none.Changed(none) {
		t.Error("it differs from itself")
	}
	e := none.Edit()
	e.Set("b", 1)
	e.Set("a", 2)
	one := e.Freeze()
	if got := one.SortedKeys(cmp.Compare); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("keys %v", got)
	}
	for _, got := range [][]string{slices.Sorted(none.Changed(one)), slices.Sorted(one.Changed(none))} {
		if !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("changed %v", got)
		}
	}
}

// Whoever has found what it looks for may stop.
func TestLoopsEndEarly(t *testing.T) {
	full := filled(1000)
	for range full.All() {
		break
	}
	for range full.Changed(nil) {
		break
	}
	for range (*Map[int, int])(nil).Changed(full) {
		break
	}
}

// What an edit does not touch is shared, which is what makes Changed cheap.
func TestUntouchedShardsAreShared(t *testing.T) {
	was := filled(10_000)
	e := was.Edit()
	e.Set(7, -1)
	e.Delete(10_001) // not there: nothing is copied for it
	is := e.Freeze()
	if n := copied(was, is); n != 1 {
		t.Errorf("%d shards were copied for one change", n)
	}
	if n := copied(was, was.Edit().Freeze()); n != 0 {
		t.Errorf("%d shards were copied for none", n)
	}
	// A shard is the edit's until the next Freeze, not longer.
	e.Set(7, -2)
	if v, _ := is.Get(7); v != -1 {
		t.Errorf("a frozen map changed: %d", v)
	}
}

func copied(a, b *Map[int, int]) (n int) {
	for i := range a.shards {
		if a.shards[i] != b.shards[i] {
			n++
		}
	}
	return n
}

func filled(n int) *Map[int, int] {
	e := (*Map[int, int])(nil).Edit()
	for k := range n {
		e.Set(k, k)
	}
	return e.Freeze()
}
