package hold

import (
	"math"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// outages lets one hold follow another, each over the same verdict.
type outages struct {
	base, next *topology.Snapshot
	now        time.Time
	past       Past
	*Hold
}

// heal begins a hold with what the one before has left in force.
func (o *outages) heal() (held int) {
	o.Hold = New(Start{Base: o.base, Node: "a-1", Began: o.now, Past: o.past})
	return o.pass(0)
}

// pass lets contact go on for a time and judges then.
func (o *outages) pass(d time.Duration) (held int) {
	o.now = o.now.Add(d)
	got, h := o.Apply(o.next, o.now)
	o.base, o.past = got, o.Past(o.now)
	return h.Endpoints
}

// away is a silence, in which nothing is counted.
func (o *outages) away(d time.Duration) {
	o.now, o.past = o.now.Add(d), o.past.Interrupted()
}

func verdict() *outages {
	return &outages{
		base: newWorld().service("web", "a-1 10.0.0.1", "a-2 10.0.0.2").b.Build(),
		next: newWorld().service("web", "a-1 10.0.0.1 not").b.Build(), now: healed,
	}
}

// up is for how long a link that flaps is there.
const up = 15 * time.Second

// flap has the link go away again and again, and returns after how much contact less
// is held than before.
func (o *outages) flap() (in time.Duration) {
	for held := o.heal(); ; o.heal() {
		if in += up; in > 2*Longest || o.pass(up-1) != held {
			return in - 1
		}
		if o.pass(1) != held {
			return in
		}
		o.away(time.Hour)
	}
}

var onA1, onA2 = Endpoint{key("web"), netip.MustParseAddr("10.0.0.1"), "a-1"}, Endpoint{key("web"), netip.MustParseAddr("10.0.0.2"), "a-2"}

// An endpoint is held for as long as Longest, over however many outages, of the
// time in which the cloud was heard of; and not again then.
func TestALinkThatFlapsHoldsNothingForEver(t *testing.T) {
	o := verdict()
	if in := o.flap(); in != Longest {
		t.Errorf("held for %s of contact, want %s", in, Longest)
	}
	if held := o.heal(); held != 0 {
		t.Errorf("%d held again", held)
	}
	o.base = verdict().base // a state from disk, of before that
	o.past.Held = []Since{{onA1, Longest}}
	if held := o.heal(); held != 1 {
		t.Errorf("%d held, want the one that was not held for so long", held)
	}
}

// Who was ready in between has all of its time again.
func TestReadyBeginsAnew(t *testing.T) {
	o := verdict()
	bad := o.next
	o.heal()
	o.pass(Bound - 1)
	o.next = newWorld().service("web", "a-1 10.0.0.1").b.Build()
	o.pass(0)
	if want := (Past{Bound - 1, []Since{{onA2, Bound - 1}}}); !reflect.DeepEqual(o.past, want) {
		t.Errorf("left: %+v, want %+v", o.past, want)
	}
	o.next = bad
	o.away(time.Hour)
	left := o.flap()
	if want := Longest - Bound; left < want || left > want+up {
		t.Errorf("the one that was not ready is held for %s more, want %s", left, want)
	}
	if in := left + o.flap(); in < Longest || in > Longest+up {
		t.Errorf("the one that was is held for %s, want %s", in, Longest)
	}
}

// A restart goes on where the process before was.
func TestARestartProlongsNothing(t *testing.T) {
	o := verdict()
	o.heal()
	for in := time.Duration(0); in < Bound-time.Second; in += time.Second {
		o.pass(time.Second)
		if held := o.heal(); held != 2 || !o.End().Equal(healed.Add(Bound)) {
			t.Fatalf("after %s: %d held until %s", in, held, o.End())
		}
	}
	if held := o.pass(time.Second); held != 0 {
		t.Errorf("%d held", held)
	}
}

// What was not written down counts as held.
func TestThePastGrowsOlder(t *testing.T) {
	e := Endpoint{Service: key("web")}
	p := Past{time.Second, []Since{{e, time.Minute}}}
	if got, want := p.After(time.Second), (Past{2 * time.Second, []Since{{e, time.Minute + time.Second}}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if p.Held[0].For != time.Minute {
		t.Error("written to")
	}
}

// What was written down may be damaged, or of a process whose clock went mad:
// it prolongs no hold.
func TestAPastThatCannotBe(t *testing.T) {
	const never, ever = time.Duration(math.MinInt64), time.Duration(math.MaxInt64)
	for _, d := range []time.Duration{never, -time.Hour, -1, Longest + 1, ever} {
		o := verdict()
		o.past = Past{Age: d}
		if o.heal(); o.End().After(healed.Add(Bound)) || o.End().Before(healed.Add(Bound-Longest)) {
			t.Errorf("of age %s: held until %s", d, o.End())
		}
		o = verdict()
		o.past.Held = []Since{{onA1, d}, {onA2, d}}
		if d > 0 {
			if held := o.heal(); held != 0 {
				t.Errorf("after %s: %d held", d, held)
			}
		} else if in := o.flap(); in != Longest {
			t.Errorf("after %s: held for %s of contact", d, in)
		}
	}
}
