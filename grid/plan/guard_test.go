package plan

import "testing"

// A removal that may not be written yet is no removal: it is not noted, and keeps no
// other from going.
func TestARemovalThatWaitsTakesNoShare(t *testing.T) {
	l := newLeader(nil)
	for _, unit := range []string{"c", "d"} {
		l.delete(Ref{Kind: "Node", Name: unit})
	}
	l.pass(0)
	l.up += l.guard.Grace
	l.tell()
	plan := func(waiting ...string) (p Plan, removed []string) {
		list := map[string]bool{}
		for _, name := range waiting {
			list[name] = true
		}
		l.x.Waiting(tillRef, list)
		p, _ = l.x.Plan(tillRef, l.guard, l.now)
		for _, s := range p.Steps {
			if s.Action == Remove && !list[s.Name] {
				removed = append(removed, s.Name)
			}
		}
		return p, removed
	}
	if p, removed := plan("till-c", "till-d"); len(removed) > 0 || p.StatusFirst || p.Workload.LastRemoval != nil {
		t.Errorf("removed %q, noted %v", removed, p.Workload.LastRemoval)
	}
	if p, removed := plan("till-c"); len(removed) != 1 || removed[0] != "till-d" || !p.StatusFirst || p.Workload.LastRemoval == nil {
		t.Errorf("removed %q, noted %v", removed, p.Workload.LastRemoval)
	}
}
