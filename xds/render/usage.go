package render

// usage is which clusters are preloaded because somebody uses them, or did when they were
// near, and in which order they were used. Who calls Cataloger.Used says which they are, how
// many, and for how long. Until it is called again what Envoy held as near and is near no
// more is held as well.
type usage struct {
	last   map[string]int  // cluster -> its place, from 1, the oldest use first
	idle   map[string]bool // those of last that were near, and nobody has used since
	fallen map[string]bool // since set
}

func (u *usage) has(name string) bool { return u.last[name] > 0 && !u.idle[name] }

// holds reports whether it is kept for nothing but that it was near.
func (u *usage) holds(name string) bool { return u.idle[name] || u.fallen[name] && u.last[name] == 0 }

// set replaces all of it, and what fell. It returns the clusters that came or went or are
// used now and were idle, or the other way round, and those that stay and have another place.
func (u *usage) set(idle, used []string) (changed, moved []string) {
	last, is := make(map[string]int, len(idle)+len(used)), make(map[string]bool, len(idle))
	for _, name := range idle {
		is[name] = true
	}
	i := 0
	for _, list := range [][]string{idle, used} {
		for _, name := range list {
			i++
			last[name] = i
			if was := u.last[name]; was == 0 || u.idle[name] != is[name] {
				changed = append(changed, name)
			} else if was != i {
				moved = append(moved, name)
			}
		}
	}
	for name := range u.last {
		if last[name] == 0 {
			changed = append(changed, name)
		}
	}
	for name := range u.fallen {
		if last[name] == 0 {
			changed = append(changed, name)
		}
	}
	u.last, u.idle = last, is
	clear(u.fallen)
	return changed, moved
}
