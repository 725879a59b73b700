package topology

import "iter"

// Changed yields the Services whose view differs from prev, gone and new ones
// included, in no order; all of them where prev is nil. Between two views of
// one Viewer it costs what changed.
func (v *View) Changed(prev *View) iter.Seq[ObjectKey] {
	if prev == nil {
		prev = &View{}
	}
	return prev.Services.Changed(v.Services)
}

// Changed yields the entries that differ from prev, gone and new ones included,
// in no order; all of them where prev is nil. Between two snapshots of one
// Builder it costs what changed.
func (s *Snapshot) Changed(prev *Snapshot) iter.Seq[ObjectKey] {
	if prev == nil {
		prev = &Snapshot{}
	}
	return prev.Services.Changed(s.Services)
}

// Service returns the view of one Service. A nil view has none.
func (v *View) Service(key ObjectKey) (*ServiceView, bool) {
	if v == nil {
		return nil, false
	}
	return v.Services.Get(key)
}
