package render

// usage is which clusters are preloaded because somebody uses them, and in
// which order they were used. Who calls Cataloger.Used says which they are, how
// many, and for how long. Until it is called again what Envoy held as near and is near no
// more is as what was used longest ago.
type usage struct {
	last   map[string]int  // cluster -> its place, from 1, the oldest use first
	fallen map[string]bool // since set
}

func (u *usage) has(name string) bool { return u.last[name] > 0 || u.fallen[name] }

// set replaces all of it, and what fell. It returns the clusters that came or went, and
// those that stay and have another place.
func (u *usage) set(names []string) (changed, moved []string) {
	last := make(map[string]int, len(names))
	for i, name := range names {
		last[name] = i + 1
		if was := u.last[name]; was == 0 {
			changed = append(changed, name)
		} else if was != i+1 {
			moved = append(moved, name)
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
	u.last = last
	clear(u.fallen)
	return changed, moved
}
