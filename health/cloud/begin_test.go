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
	for range 3600 {
		r.hear(r.now, errSilent, errSilent)
		r.pass(time.Second, false)
	}
	r.listedAre("nobody answers: the unit may be dark", "a-1", "a-2", "a-3")
	r.hear(r.now, nil, nil)
	r.say("a-2", "false", "yes=0 no=2 of=3 exact=true") // some time ago
	r.pass(28*time.Second, true)
	r.listedAre("it has just begun to look again", "a-1", "a-2", "a-3")
	r.pass(20*time.Second, true)
	r.listedAre("it is dead, and the others may not have been missed yet", "a-1", "a-3")
	r.tainted("a-2", evicting, true)
	r.pass(time.Minute+20*time.Second, true)
	r.listedAre("the others are heard")
}
