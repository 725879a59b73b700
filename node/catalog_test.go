package node

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/preload"
	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/xds/admin"
	"github.com/gridmesh/gridmesh/xds/render"
)

// A pod dials all of 2000 Services: the state stays small, and a restart keeps
// what was used before.
func TestAScanAndARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		o := nodetest.NewObjects()
		var names []string
		for i := range 2000 {
			ip := fmt.Sprintf("10.96.%d.%d", 1+i/250, 1+i%250)
			o.Plain(fmt.Sprint("far-", i), ip, map[string]string{"b-1": "10.244.9.7"})
			names = append(names, ip+":80")
		}
		r.publish(o)
		r.xds.Ask(names[1999])
		synctest.Wait()
		r.xds.Ask(names...)
		synctest.Wait()
		after(statedir.SaveInterval)
		r.stop()
		used := r.saved(t).Used
		if len(used) > preload.Burst+1 || !slices.Contains(used, names[1999]) {
			t.Errorf("%d are saved as used, that of before among them: %v", len(used), slices.Contains(used, names[1999]))
		}
		if len(r.agent.status().Notes) != 1 {
			t.Errorf("notes: %q", r.agent.status().Notes)
		}
	})
}

// The pages say the numbers that count here.
func TestTheNumbersOnThePages(t *testing.T) {
	udp := render.Default().MaxUDP
	for page, parts := range map[string][]string{
		"../docs/ARCHITECTURE.md": {fmt.Sprintf("up to %d that were used", preload.Most), fmt.Sprintf("%d a node, and the cluster's DNS", udp), fmt.Sprintf("`--preload-max`, %d", Default().PreloadMax)},
		"../docs/limits.md": {
			fmt.Sprintf("up to %d clusters; %d new ones are taken at once, then one every %s", preload.Most, preload.Burst, preload.Every),
			fmt.Sprintf("waits for %s", preload.WaitIdle), fmt.Sprintf("let go after %d days", preload.Idle/(24*time.Hour)), fmt.Sprintf("a node has %d UDP", udp),
		},
	} {
		text, err := os.ReadFile(page)
		must(t, err)
		words := strings.Join(strings.Fields(string(text)), " ")
		for _, part := range parts {
			if !strings.Contains(words, part) {
				t.Errorf("%s does not say %q", page, part)
			}
		}
	}
}

// The unit's endpoints of 300 Services go, of which 250 are dialled all the time: none of those
// is taken from Envoy, before and after their turns, and a restart knows of them.
func TestWhatWasNearIsNotTakenFromEnvoy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := webOnly()
		r := asked(t, o)
		var names []string
		var busy []admin.Cluster
		from := func(node string) {
			for i := range 300 {
				o.Plain(fmt.Sprint("near-", i), fmt.Sprintf("10.96.%d.%d", 1+i/250, 1+i%250), map[string]string{node: "10.244.9.7"})
			}
			r.publish(o)
		}
		for i := range 300 {
			names = append(names, fmt.Sprintf("10.96.%d.%d:80", 1+i/250, 1+i%250))
		}
		lost := func(when string, names []string) {
			t.Helper()
			n := 0
			for _, name := range names {
				if _, ok := r.xds.Holds(name); !ok {
					n++
				}
			}
			if n > 0 {
				t.Errorf("%s: %d of %d are taken from Envoy", when, n, len(names))
			}
		}
		from("a-2")
		lost("near", names)
		for _, name := range names[:250] {
			busy = append(busy, ofEnvoy(name, 1, 1))
		}
		from("b-1")
		lost("fallen", names)
		r.envoy.Say(busy...)
		r.look()
		lost("a look later", names)
		for range 3 {
			after(preload.WaitIdle)
			lost("hours later", names[:250])
		}
		if _, ok := r.xds.Holds(names[299]); ok {
			t.Error("what nobody uses is held for hours")
		}
		r.stop()
		if used := r.saved(t).Used; len(used) != 250 {
			t.Errorf("%d are saved as used, want 250", len(used))
		}
	})
}
