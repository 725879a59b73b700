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
