package vote

import (
	"slices"
	"testing"
)

// Of who says that it has no uplink the unit is asked at once; where a whole unit does, of few of
// them, and of all others in one question with the next round.
func TestManyUplinksAreCut(t *testing.T) {
	u := leading(60)
	var asked []string
	questions := 0
	note := func(out Effects) {
		questions += len(out.Ask)
		for _, q := range out.Ask {
			asked = append(asked, q.Targets...)
			for _, from := range u.view.Names() {
				u.step(Answered{Question: q.Number, From: from, Results: []Result{{q.Targets[0], Yes}}})
			}
		}
	}
	for _, name := range u.view.Names() {
		if name != u.cfg.Self {
			note(u.step(Reported{From: name, Hears: true}))
		}
	}
	if questions != hurries {
		t.Errorf("%d questions at once", questions)
	}
	u.now = u.now.Add(u.cfg.Every)
	note(u.step(Tick{}))
	of := map[string]bool{}
	for _, name := range u.view.Subjects(u.cfg.Self) {
		of[name] = true
	}
	note(u.step(Checked{of}))
	if slices.Sort(asked); questions > hurries+1 || len(slices.Compact(asked)) != 59 {
		t.Errorf("%d questions, about %d nodes", questions, len(slices.Compact(asked)))
	}
}
