package node

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/health/told"
	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/node/hold"
	"github.com/gridmesh/gridmesh/node/nodetest"
)

// voter writes as the health daemon of a node does, until it is killed.
type voter struct {
	path string
	say  chan []string
	kill func()
}

// votes has the node's daemon say that nobody is dead.
func (r *rig) votes(t *testing.T) *voter {
	t.Helper()
	v := &voter{path: filepath.Join(t.TempDir(), "dead"), say: make(chan []string)}
	r.cfg.DeadNodesFile = v.path
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var dead []string
		for {
			v.write(t, wordOf("a-1", dead...))
			select {
			case dead = <-v.say:
			case <-time.After(told.Every):
			case <-end:
				return
			}
		}
	}()
	v.kill = func() {
		select {
		case <-end:
		default:
			close(end)
		}
		<-ended
	}
	t.Cleanup(v.kill)
	return v
}

// wordOf is one of a node of a unit of five.
func wordOf(node string, dead ...string) told.Word {
	w := told.Word{Node: node, Unit: "a", Members: 5, Written: time.Now()}
	for _, name := range dead {
		w.Dead = append(w.Dead, told.Dead{Node: name, Since: w.Written})
	}
	return w
}

func (v *voter) write(t *testing.T, w told.Word) {
	data, err := w.Encode()
	if err == nil {
		err = atomicfile.Write(v.path, data)
	}
	if err != nil {
		t.Error(err)
	}
}

// dead has the daemon call these nodes dead.
func (v *voter) dead(names ...string) {
	v.say <- names
	after(2 * hearEvery)
}

// wantDead compares who counts as dead: for Envoy, for other processes, in the status and as
// a metric. All endpoints are there all the while.
func (r *rig) wantDead(t *testing.T, when string, want ...string) {
	t.Helper()
	r.wantAnswer(t, when, onA1, onA2)
	ends := map[string]string{"a-1": onA1, "a-2": onA2}
	var unhealthy []string
	for _, name := range want {
		unhealthy = append(unhealthy, ends[name])
	}
	if got := r.xds.Unhealthy("10.96.0.10:80"); !slices.Equal(got, unhealthy) {
		t.Errorf("%s: to Envoy %v are unhealthy, want %v", when, got, unhealthy)
	}
	if snap, _ := r.agent.snapshot.Get(); !slices.Equal(snap.Dead, want) {
		t.Errorf("%s: other processes hear that %v are dead, want %v", when, snap.Dead, want)
	}
	if got := r.agent.status().VotedDead; !slices.Equal(got, want) {
		t.Errorf("%s: the status says %v, want %v", when, got, want)
	}
	if n := r.metric(t, "gridmesh_voted_dead_nodes"); n != float64(len(want)) {
		t.Errorf("%s: %v are counted, want %v", when, n, want)
	}
}

// voting has an agent that serves web, with a cloud, and a daemon beside it.
func voting(t *testing.T) (*rig, *nodetest.Objects, *voter) {
	t.Helper()
	r := newRig(t)
	v := r.votes(t)
	r.api = &nodetest.API{Pods: prefixes("10.244.1.0/24")}
	r.mustStart(t)
	o := unitWeb()
	r.hear(o)
	after(2 * told.Every) // the first word alone may be of any age
	return r, o, v
}

// What the unit votes counts while the cloud is away, and no longer.
func TestTheVoteIsHeardWithoutACloud(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o, v := voting(t)
		v.dead("a-2")
		r.wantDead(t, "with a cloud")
		r.cut(30 * time.Second)
		r.wantDead(t, "cut", "a-2")
		after(10 * time.Minute)
		r.wantDead(t, "cut for long", "a-2")
		if n := r.log.Count("are dead by the vote of their unit"); n != 1 {
			t.Errorf("said %d times", n)
		}
		v.dead()
		r.wantDead(t, "withdrawn")
		v.dead("a-2")
		r.wantDead(t, "dead again", "a-2")
		r.heal()
		r.hear(o)
		r.wantDead(t, "healed", "a-2")
		after(askAfter + askWithin + 2*askPause)
		r.wantDead(t, "the cloud has not heard it since", "a-2")
		r.api.Renew("a-2")
		after(3 * askPause)
		r.wantDead(t, "it has reported")
		v.dead()
		v.dead("a-2")
		after(10 * time.Minute)
		r.hear(o)
		r.wantDead(t, "the cloud is there")
	})
}

// After an outage what the cloud says of a node that has not reported is held, and who is
// voted dead is marked among it: nothing comes or goes between the outage and the cloud's
// word. A node that is silent to both is the cloud's to judge in the end; on a link that
// flaps the vote goes on.
func TestTheVoteIsHeardWhileAHoldLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o, v := voting(t)
		r.cut(time.Minute)
		v.dead("a-2")
		r.wantDead(t, "cut", "a-2")
		for range 3 {
			r.heal()
			o.Unready("web", onA2)
			r.hear(o)
			r.wantDead(t, "healed", "a-2")
			r.wantHeld(t, "healed", 1)
			r.cut(time.Minute)
			r.wantDead(t, "cut again", "a-2")
		}
		r.heal()
		r.hear(o)
		v.dead()
		r.wantDead(t, "withdrawn while it is held")
		v.dead("a-2")
		r.wantDead(t, "dead again", "a-2")
		for range hold.Bound / time.Second {
			r.source.Contacted(time.Now())
			after(time.Second)
		}
		r.wantAnswer(t, "after the hold", onA1)
		if got := r.agent.status().VotedDead; len(got) > 0 {
			t.Errorf("after the hold still dead: %v", got)
		}
		for text, most := range map[string]int{"are dead by the vote of their unit": 2, "counts as dead by the vote": 2} {
			if n := r.log.Count(text); n == 0 || n > most {
				t.Errorf("said %d times: %s", n, text)
			}
		}
	})
}

// The agent may be there before the daemon has ever told anything, and what it finds may be
// of any age.
func TestTheAgentIsThereFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		v := &voter{path: filepath.Join(t.TempDir(), "made", "dead")}
		r.cfg.DeadNodesFile = v.path
		r.api = &nodetest.API{Pods: prefixes("10.244.1.0/24")}
		r.mustStart(t)
		r.hear(unitWeb())
		r.cut(time.Minute)
		r.wantDead(t, "no daemon")
		must(t, os.Mkdir(filepath.Dir(v.path), 0o700))
		old := wordOf("a-1", "a-2")
		old.Written = old.Written.AddDate(1, 0, 0) // by a clock that was ahead
		v.write(t, old)
		after(time.Minute)
		r.wantDead(t, "one word, of any age")
		v.write(t, wordOf("a-1", "a-2"))
		after(2 * hearEvery)
		r.wantDead(t, "a daemon that lives", "a-2")
		if n := r.log.Count("is not heard"); n > 0 {
			t.Errorf("that nobody votes is said: %s", r.log)
		}
	})
}

// A daemon that died, or hangs, is not heard for ever; one that begins anew in time is.
func TestAWordHasItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, v := voting(t)
		v.dead("a-2")
		r.cut(time.Minute)
		v.kill()
		after(told.Fresh - told.Every - 2*hearEvery)
		r.wantDead(t, "killed a moment ago", "a-2")
		v.write(t, wordOf("a-1", "a-2"))
		after(told.Fresh - 2*hearEvery)
		r.wantDead(t, "another has said it since", "a-2")
		after(5 * hearEvery)
		r.wantDead(t, "nobody says it any more")
		after(time.Hour)
		r.wantDead(t, "an hour later")
		v.write(t, wordOf("a-1", "a-2"))
		after(2 * hearEvery)
		r.wantDead(t, "a daemon is back", "a-2")
	})
}

// What is wrong or somebody else's is told, and changes nothing.
func TestWhatIsNoWordIsNotBelieved(t *testing.T) {
	for name, spoil := range map[string]struct {
		write func(t *testing.T, path string)
		says  string
	}{
		"cut off":        {func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte(`{"version":1`), 0o600)) }, "unexpected EOF"},
		"another node's": {func(t *testing.T, path string) { (&voter{path: path}).write(t, wordOf("a-3", "a-2")) }, `of this node's: it is \"a-3\"'s`},
		"anybody's": {func(t *testing.T, path string) {
			(&voter{path: path}).write(t, wordOf("a-1", "a-2"))
			must(t, os.Chmod(path, 0o666))
		}, "may be written by others"},
		"most of the unit": {func(t *testing.T, path string) {
			must(t, os.WriteFile(path, []byte(`{"version":1,"node":"a-1","members":3,"written":"2026-01-02T03:04:05Z","dead":[{"node":"a-2"},{"node":"a-3"}]}`), 0o600))
		}, "half of them"},
		"itself": {func(t *testing.T, path string) {
			must(t, os.WriteFile(path, []byte(`{"version":1,"node":"a-1","members":3,"written":"2026-01-02T03:04:05Z","dead":[{"node":"a-1"}]}`), 0o600))
		}, "whose own word it is"},
		"too much": {func(t *testing.T, path string) {
			must(t, os.WriteFile(path, make([]byte, told.MaxSize+1), 0o600))
		}, "at most 1048576 are expected"},
		"a link": {func(t *testing.T, path string) {
			(&voter{path: path + "-elsewhere"}).write(t, wordOf("a-1", "a-2"))
			must(t, os.Remove(path))
			must(t, os.Symlink(path+"-elsewhere", path))
		}, "is no file of ours"},
		"a pipe": {func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, syscall.Mkfifo(path, 0o600))
		}, "is no file of ours"},
		"a directory": {func(t *testing.T, path string) { must(t, os.Remove(path)); must(t, os.Mkdir(path, 0o700)) }, "is no file of ours"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _, v := voting(t)
				r.cut(30 * time.Second)
				v.kill()
				spoil.write(t, v.path)
				after(time.Minute)
				r.wantDead(t, "spoilt")
				if n := r.log.Count(spoil.says); n != 1 || !strings.Contains(r.log.String(), "--dead-nodes-file") {
					t.Errorf("said %d times that %s: %s", n, spoil.says, r.log.String())
				}
			})
		})
	}
}

// A node that nobody knows does not count, and no Service loses its last endpoint.
func TestAVoteEmptiesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o, v := voting(t)
		r.cut(30 * time.Second)
		v.dead("a-2", "nobody")
		r.wantDead(t, "one of them", "a-2")
		o.Gone("web", onA1)
		r.publish(o) // without a contact: what was under way
		r.wantEnvoy(t, "the last", onA2)
		if got := r.xds.Unhealthy("10.96.0.10:80"); len(got) > 0 {
			t.Errorf("its last endpoint is unhealthy: %v", got)
		}
	})
}

// An agent that begins without a cloud serves from the last good state, which changes nothing
// that Envoy and the kernel hold; from the first contact on it hears the vote again.
func TestARestartWithoutACloudHearsNoVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o, v := voting(t)
		v.dead("a-2")
		r.cut(time.Minute)
		r.wantDead(t, "before", "a-2")
		r.restart(t, false, time.Second)
		after(time.Minute)
		r.wantDead(t, "after a restart")
		r.heal()
		r.hear(o)
		r.cut(time.Minute)
		r.wantDead(t, "cut again", "a-2")
	})
}
