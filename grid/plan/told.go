package plan

import "maps"

// What an index is told by who carries its plans out.

// Failed notes what became of writes, by Step.Key; one without a text is a success.
func (x *Index) Failed(grid Ref, outcomes map[string]Failure) {
	g := x.grids[grid]
	if g == nil {
		return
	}
	for key, f := range outcomes {
		switch was, failed := g.failures[key]; {
		case f.Text == "" && failed:
			delete(g.failures, key)
			x.dirty[grid] = true
		case f.Text != "":
			if was.Hash == f.Hash {
				f.Since = earlier(was.Since, f.Since)
			}
			if g.failures[key] = f; was != f {
				x.dirty[grid] = true
			}
		}
	}
}

// failure is why what a step is to write could not be written. What was tried before
// with another content says nothing of it.
func (g *tracked) failure(s Step) (Failure, bool) {
	f, failed := g.failures[s.Key()]
	return f, failed && (s.desired == nil || f.Hash == s.Hash())
}

// Disputed notes which children of a grid others change again and again.
func (x *Index) Disputed(grid Ref, list map[string]Dispute) {
	if g := x.grids[grid]; g != nil {
		g.disputed = list
	}
}

// MarkDeleting notes that a child is being deleted, before its watch says so.
// One of another version was seen since, and may be another child.
func (x *Index) MarkDeleting(ref Ref, version string) {
	if c := x.children[ref]; c != nil && c.version == version {
		obj, metadata := maps.Clone(c.obj), maps.Clone(value[Object](c.obj, "metadata"))
		metadata["deletionTimestamp"], obj["metadata"] = "now", metadata
		x.Set(obj)
	}
}

// MarkTaken notes that a name that a grid wants is somebody else's, who is not
// watched. MarkAllDirty forgets it.
func (x *Index) MarkTaken(ref, by Ref) {
	x.taken[ref] = true
	x.dirty[by] = true
}
