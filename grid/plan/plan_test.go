package plan

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

var testGuard = Guard{Grace: 5 * time.Minute, Share: 0.3}

// The laws of planning, over random histories: what is read is not written to;
// a plan from an index that followed every change is the plan from nothing; no
// two steps want one object; every unit has one child at most, selected by its
// nodes and by what the template asked for; waves and removals keep their
// bounds; what failed lets no wave go, out of sight or not; outside its turn, and while a
// rollout stands still, what is made is what most have that wait; and what was carried out
// is kept.
func TestLaws(t *testing.T) {
	count := map[string]int{}
	for seed := range testkit.Histories(24) {
		c := newCluster(seed)
		removed := map[Ref][]time.Time{}
		for step := range 60 {
			c.happen()
			before := Object(nil)
			if step%4 == 0 { // it takes a while
				before = clone(anyObjects(c.objects))
			}
			plans := c.plan(t)
			if after := anyObjects(c.objects); before != nil && !reflect.DeepEqual(before, after) {
				t.Fatalf("seed %d, step %d: planning changed what it read:\n%s", seed, step, cmp.Diff(before, after))
			}
			if step%2 == 1 { // what the index has wrong once it has wrong a step later
				if twin, own := bare(t, c.certain(All(c.world(), testGuard, c.now), count), c.now), bare(t, c.certain(plans, count), c.now); twin != own {
					t.Fatalf("seed %d, step %d: from nothing (-) and from the index (+):\n%s", seed, step, cmp.Diff(lines(twin), lines(own)))
				}
			}
			tally(count, plans)
			checkOrphans(t, seed, c, count)
			checkPlans(t, seed, c, plans, removed, count)
			c.note(plans)
			c.carryOut(plans)
			if step%4 == 0 {
				checkSettled(t, seed, c)
			}
		}
	}
	t.Log(count)
	for _, what := range []string{"create", "update", "keep", "adopt", "wait", "hold", "remove", "release", "refuse", "WaveBegins", "WaveReady", "RolloutStopped", "RolloutPaused", "RolloutComplete", "orphan", "pilot gone", "mistyped", "no Nodes", "made meanwhile", "made early", "begins with another", "failed and hidden"} {
		if count[what] < 2 {
			t.Errorf("%s happened %d times: the histories are too tame", what, count[what])
		}
	}
	if judged, all := count["judged"], count["remove"]; 10*judged < 7*all { // others had no Nodes, or a key that may be mistyped, before
		t.Errorf("of %d removals %d are judged", all, judged)
	}
}

// tally counts what happens in plans.
func tally(count map[string]int, plans []Plan) {
	for _, p := range plans {
		for _, s := range p.Steps {
			count[string(s.Action)]++
		}
		for _, n := range p.Events {
			count[n.Reason]++
		}
		if p.Workload != nil && len(p.Workload.Gone) > 0 {
			count["pilot gone"]++
		}
	}
}

// plan plans every grid. The plan of one that the index does not call dirty
// must be what it was, unless its time has come.
func (c *cluster) plan(t *testing.T) []Plan {
	t.Helper()
	dirty := c.x.Dirty()
	var plans []Plan
	c.noteMended()
	for _, ref := range c.x.Grids() {
		p, ok := c.x.Plan(ref, testGuard, c.now)
		if !ok {
			t.Fatalf("no plan of %s", ref)
		}
		plans = append(plans, p)
		c.notePilots(ref)
		was, known := c.last[ref]
		quiet := p
		quiet.Events, quiet.StatusFirst, quiet.Steps = nil, false, slices.Clone(p.Steps) // told once
		for i := range quiet.Steps {
			quiet.Steps[i].Nodes = 0 // for display alone
		}
		text := transition.ReplaceAllString(bare(t, []Plan{quiet}, time.Time{}), "")
		if known && !slices.Contains(dirty, ref) && (was.due.IsZero() || c.now.Before(was.due)) && text != was.text {
			t.Fatalf("the plan of %s changed, and it is not dirty:\n%s", ref, cmp.Diff(lines(was.text), lines(text)))
		}
		due := time.Time{}
		if p.RequeueAfter > 0 {
			due = c.now.Add(p.RequeueAfter)
		}
		c.last[ref] = lastPlan{text, due}
	}
	return plans
}

// transition is the time of a condition, which stands only once it is written.
var transition = regexp.MustCompile(`"lastTransitionTime":"[^"]*",`)

type lastPlan struct {
	text string
	due  time.Time
}

func anyObjects(objects map[Ref]Object) Object {
	out := Object{}
	for ref, obj := range objects {
		out[ref.String()] = obj
	}
	return out
}

// bare is what of plans is compared.
func bare(t *testing.T, plans []Plan, now time.Time) string {
	t.Helper()
	var list []any
	for _, p := range plans {
		events := p.Events
		for _, s := range p.Steps {
			obj := s.Object(now)
			s.desired, s.appliedAt = nil, time.Time{}
			list = append(list, s.Unit, s.Name, s.Action, s.Why, s.Ready, s.Updated, s.Dark, s.Nodes, obj)
		}
		if p.Revision != nil {
			list = append(list, p.Revision.Object())
		}
		list = append(list, p.Grid, p.UnitKey, p.Problems, p.Expired, p.Unused, p.Workload, p.Service, p.StatusFirst, events)
	}
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// lines is JSON for people.
func lines(text string) string {
	var out bytes.Buffer
	if json.Indent(&out, []byte(text), "", " ") != nil {
		return text
	}
	return out.String()
}

func checkPlans(t *testing.T, seed uint64, c *cluster, plans []Plan, removed map[Ref][]time.Time, count map[string]int) {
	t.Helper()
	seen := map[Ref]bool{}
	for _, p := range plans {
		units, gone := map[string]bool{}, 0
		if why := c.stays(p); why != "" {
			count[why]++
		}
		for _, s := range p.Steps {
			ref := Ref{s.Kind, p.Grid.Namespace, s.Name}
			if s.Action != Refuse && s.Action != Wait && seen[ref] {
				t.Fatalf("seed %d: two steps want %v", seed, ref)
			}
			seen[ref] = seen[ref] || s.Action != Refuse && s.Action != Wait
			if s.Action == Remove {
				removed[p.Grid] = append(removed[p.Grid], c.now)
				checkGrace(t, seed, c, p, s, count)
			}
			if s.Action == Remove || s.Action == Hold {
				gone++
				continue
			}
			if units[s.Unit] {
				t.Fatalf("seed %d: unit %s of %s has two children", seed, s.Unit, p.Grid)
			}
			units[s.Unit] = true
			obj := s.Object(c.now)
			if obj == nil || s.Kind == "Service" {
				continue
			}
			want := map[string]string{p.UnitKey: s.Unit, "disk": "ssd"}
			if got := stringsOf(value[Object](obj, "spec", "template", "spec", "nodeSelector")); !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: node selector %v, want %v", seed, got, want)
			}
		}
		checkRemovals(t, seed, removed[p.Grid], len(p.Steps))
		checkWave(t, seed, c, p, len(units))
		checkPause(t, seed, c, p)
		checkBegin(t, seed, c, p, count)
		checkFailed(t, seed, c, p, count)
		checkStop(t, seed, c, p)
	}
}

// checkGrace: a child is removed once its unit has had no node for the grace, and while
// there are no Nodes, or the grid's key may be mistyped, not at all. (What nobody looked at for a time has a mark
// that may be old, and testGuard watches nothing: TestUnitsOfAGridThatIsMendedAreGuardedAnew.)
func checkGrace(t *testing.T, seed uint64, c *cluster, p Plan, s Step, count map[string]int) {
	t.Helper()
	if why := c.stays(p); why != "" {
		t.Fatalf("seed %d: unit %s of %s is removed: %s", seed, s.Unit, p.Grid, why)
	}
	since, gone := c.absent[[2]string{p.UnitKey, s.Unit}]
	if !gone || c.unsure(p, s) || c.noted[p.Grid][s.Name].surplus == since.step-1 { // one too many may go when its unit does
		return
	}
	count["judged"]++
	if c.now.Sub(since.at) < testGuard.Grace {
		t.Fatalf("seed %d: unit %s of %s is removed %s after it had a node", seed, s.Unit, p.Grid, c.now.Sub(since.at))
	}
}

// checkRemovals: within a grace, no more than the share, one at least.
func checkRemovals(t *testing.T, seed uint64, times []time.Time, units int) {
	t.Helper()
	if len(times) == 0 {
		return
	}
	last, n := times[len(times)-1], 0
	for _, at := range times {
		if last.Sub(at) < testGuard.Grace {
			n++
		}
	}
	// Units may have been more when the others were removed: at most 7 here.
	if most := max(1, 7*3/10); n > most {
		t.Fatalf("seed %d: %d of %d removed within %s", seed, n, units, testGuard.Grace)
	}
}

// checkWave: a wave is no larger than it may be, and none begins while a unit
// that the change has reached is busy or has failed beyond what is allowed, or while
// a unit that is to go first is not there.
func checkWave(t *testing.T, seed uint64, c *cluster, p Plan, units int) {
	t.Helper()
	spec := value[Object](c.objects[p.Grid], "spec")
	if value[Object](spec, "rollout") == nil {
		return
	}
	begun, busy, failed := 0, 0, 0
	for _, s := range p.Steps {
		old := s.Action == Keep && s.appliedAt.Add(10*time.Minute).Compare(c.now) <= 0
		switch {
		case s.changed && s.Action == Update:
			begun++
			if s.Dark {
				t.Fatalf("seed %d: the change goes to dark unit %s of %s", seed, s.Unit, p.Grid)
			}
		case s.Action == Create: // before its turn, or in it: checkBegin
		case s.Action == Hold || s.Action == Remove || s.changed || s.Updated || s.Dark || s.Action == Refuse:
		case old:
			failed++
		default:
			busy++
		}
	}
	if begun > waveSize(spec, units) {
		t.Fatalf("seed %d: a wave of %d units of %d for %v", seed, begun, units, spec["rollout"])
	}
	if begun > 0 && (busy > 0 && failed == 0 || value[Object](spec, "rollout")["paused"] == true) {
		t.Fatalf("seed %d: a wave begins while %d are busy, of %v", seed, busy, spec["rollout"])
	}
	if begun > 0 && orderLacks(c, p) {
		t.Fatalf("seed %d: a wave begins, and nobody is in a unit of %v", seed, spec["rollout"])
	}
}

// checkPause: while what a wave has reached stays as it is, the next one begins
// no sooner than the pause after it was ready.
func checkPause(t *testing.T, seed uint64, c *cluster, p Plan) {
	t.Helper()
	last, known := c.waves[p.Grid]
	for _, e := range p.Events {
		switch e.Reason {
		case "WaveReady":
			last.ready = c.now
			c.waves[p.Grid] = last
		case "WaveBegins":
			pause := time.Duration(integer(c.objects[p.Grid], 0, "spec", "rollout", "pauseSeconds")) * time.Second
			next, stands := wave{}, known
			for _, s := range p.Steps {
				begins := (s.changed || s.Action == Create && !s.begins(p)) && s.desired != nil
				if begins {
					next.units = append(next.units, s.Unit)
				}
				stands = stands && (!slices.Contains(last.units, s.Unit) || !s.changed && !s.leaving())
			}
			if since := c.now.Sub(last.ready); stands && since < pause {
				t.Fatalf("seed %d: a wave of %s begins %s after the one before was ready, and the pause is %s", seed, p.Grid, since, pause)
			}
			c.waves[p.Grid] = next
		}
	}
}

// checkStop: a rollout stops for units that have been able to become ready for
// the whole deadline, now or before, or for one that is to go first and that no node is in.
func checkStop(t *testing.T, seed uint64, c *cluster, p Plan) {
	t.Helper()
	if p.Workload == nil || !meta.IsStatusConditionPresentAndEqual(p.Workload.Conditions, "Progressing", "False") || value[bool](c.objects[p.Grid], "spec", "rollout", "paused") || orderLacks(c, p) || len(c.failing[p.Grid].units) > 0 {
		return
	}
	for _, s := range p.Steps {
		lit := time.Time{}
		for _, ref := range c.refs("Node") {
			n := readNode(c.objects[ref])
			if n.labels[p.UnitKey] == s.Unit && n.ready && (lit.IsZero() || n.since.Before(lit)) {
				lit = n.since
			}
		}
		if !lit.IsZero() && c.now.Sub(lit) >= 10*time.Minute && c.now.Sub(s.appliedAt) >= 10*time.Minute && !s.Updated {
			return
		}
	}
	t.Fatalf("seed %d: the rollout of %s stopped, and no unit had its deadline", seed, p.Grid)
}

// checkSettled: carried out, and nothing changed since: nothing is left to do.
func checkSettled(t *testing.T, seed uint64, c *cluster) {
	t.Helper()
	for round := 0; ; round++ {
		plans := c.plan(t)
		var left []string
		for _, p := range plans {
			for _, s := range p.Steps {
				if s.Action == Create || s.Action == Update || s.Action == Adopt || s.Action == Release || s.Unmarked {
					left = append(left, p.Grid.String()+" "+s.Unit+" "+string(s.Action)+": "+s.Why)
				}
			}
			if p.Revision != nil {
				left = append(left, p.Grid.String()+" revision")
			}
		}
		if len(left) == 0 {
			return
		}
		if round == 20 {
			t.Fatalf("seed %d: it never ends:\n%s", seed, strings.Join(left, "\n"))
		}
		c.carryOut(plans)
	}
}

func TestKeyLabel(t *testing.T) {
	for key, want := range map[string]string{
		"site":                        "site",
		"topology.kubernetes.io/zone": "topology.kubernetes.io..zone",
		"a-very-long-prefix.of-a-domain.that-is.still-legal.example.com/region-of-the-world": "sha256-",
	} {
		if got := keyLabel(key); got[:min(len(got), len(want))] != want || len(got) > 63 {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}
