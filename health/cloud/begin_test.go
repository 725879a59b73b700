package cloud

import (
	"errors"
	"testing"
	"time"
)

// A verdict of death that a controller finds when it begins may be of any age, and the node may
// be back: it counts once it is seen to be renewed. One of life keeps.
func TestAFoundVerdictEvictsNobody(t *testing.T) {
	r := newRig(t)
	r.lose("a-1", "a-2")
	r.say("a-1", "true", "yes=3 no=0 of=3 exact=true cut=true")
	r.say("a-2", "false", "yes=0 no=2 of=3 exact=true at=2025-01-01T00:00:00Z")
	r = r.restart()
	r.pass(2*time.Minute, true)
	r.listedAre("one was voted well", "a-1")
	r.tainted("a-2", evicting, false)
	r.say("a-2", "false", "yes=0 no=2 of=3 exact=true at=2026-01-02T03:04:05Z")
	r.pass(20*time.Second, true)
	r.tainted("a-2", evicting, true)
}

// Who does not hear the API server does not know how nodes are, and begins anew when it does.
func TestTheAPIServerDoesNotAnswer(t *testing.T) {
	r := newRig(t)
	r.pass(40*time.Second, true)
	r.say("a-2", "true", "yes=3 no=0 of=3 exact=true cut=true")
	r.lose("a-2")
	r.pass(2*time.Second, true)
	errSilent := errors.New("nobody answers")
	r.on.broken = true
	for range 3600 {
		r.hear(r.now, errSilent, errSilent)
		r.pass(time.Second, false)
	}
	r.listedAre("nobody answers, and takes anything", "a-2")
	r.on.broken = false
	r.hear(r.now, nil, nil)
	r.pass(time.Second, false)
	r.listedAre("the unit may be dark", "a-1", "a-2", "a-3")
	r.say("a-2", "false", "yes=0 no=2 of=3 exact=true") // some time ago
	r.pass(28*time.Second, true)
	r.listedAre("it has just begun to look again", "a-1", "a-2", "a-3")
	r.pass(20*time.Second, true)
	r.listedAre("it is dead, and the others may not have been missed yet", "a-1", "a-3")
	r.tainted("a-2", evicting, true)
	r.pass(time.Minute+20*time.Second, true)
	r.listedAre("the others are heard")
}

// A unit that has no uplink when the API server answers again is held, though the controller manager
// misses its nodes a minute later, and not all at once.
func TestAUnitThatIsDarkAfterAnOutage(t *testing.T) {
	for name, again := range map[string]func(*rig) *rig{
		"the same controller": func(r *rig) *rig { r.hear(r.now, nil, nil); return r },
		"another one":         (*rig).restart,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.pass(10*time.Minute, true)
			errSilent := errors.New("nobody answers")
			r.on.broken = true
			for range 600 {
				r.hear(r.now, errSilent, errSilent)
				r.pass(time.Second, false)
			}
			r.on.broken = false
			r = again(r)
			r.pass(55*time.Second, false)
			for _, lost := range []string{"a-1", "a-2", "a-3"} {
				r.lose(lost)
				r.pass(4*time.Second, false)
			}
			r.listedAre("it has no uplink", "a-1", "a-2", "a-3")
			r.pass(10*time.Minute, false)
			r.listedAre("it has none yet", "a-1", "a-2", "a-3")
		})
	}
}

// A unit that loses its uplink is held also where Kubernetes' patience is longer than that of who
// looks at silent units: its nodes are missed one after the other.
func TestAPatientControllerManager(t *testing.T) {
	r := newRig(t)
	r.pass(10*time.Minute, true)
	r.pass(5*time.Minute, false)
	for _, lost := range []string{"a-1", "a-2", "a-3"} {
		r.lose(lost)
		r.pass(4*time.Second, false)
	}
	r.listedAre("it has no uplink", "a-1", "a-2", "a-3")
}
