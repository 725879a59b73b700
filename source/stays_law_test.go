package source

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// Law: over random edits each object of a file is as the newest text of it that an API server takes,
// or as it is written where there was none, also of several of one name, of which the last counts;
// and once all is right there is no word of what is lost.
func TestEachObjectIsAsItWasLastRight(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 30 {
		dir, twin := t.TempDir(), t.TempDir()
		d, sound := NewDir(dir), map[string]map[turn]string{} // by file: what counts
		for step := range 40 {
			right := step%10 == 9 // then each file is corrected
			for _, name := range []string{"f0.yaml", "f1.yaml"} {
				if !right && r.IntN(3) > 0 {
					continue
				}
				var docs, counts []string
				next, behind := map[turn]string{}, map[string]int{}
				for range r.IntN(5) { // the last first
					object := fmt.Sprintf("%s-s%d", strings.TrimSuffix(name, ".yaml"), r.IntN(3))
					of := turn{object, behind[object]}
					behind[object]++
					doc, ok := randomService(r, object, right)
					docs = slices.Insert(docs, 0, doc)
					if was, had := sound[name][of]; !ok && had {
						doc, ok = was, true
					}
					counts = slices.Insert(counts, 0, doc)
					if ok {
						next[of] = doc
					}
				}
				sound[name] = next
				write(t, dir, name, strings.Join(docs, "\n---\n")+"\n# "+fmt.Sprint(step))
				write(t, twin, name, strings.Join(counts, "\n---\n")+"\n# "+fmt.Sprint(step))
			}
			anew := NewDir(twin)
			if err := errors.Join(d.refresh(), anew.refresh()); err != nil {
				t.Fatal(err)
			}
			is, want := *newest(&d.Snapshots), *newest(&anew.Snapshots)
			if lost := slices.IndexFunc(is.Problems, func(p topology.Problem) bool { return p.Loss != topology.LostNothing }); right && lost >= 0 {
				t.Fatalf("step %d: all is right, and told is %v", step, is.Problems[lost])
			}
			is.Problems, want.Problems = nil, nil
			if got, want := describe(&is), describe(&want); got != want {
				t.Fatalf("step %d: in force is\n%s\nwant\n%s", step, got, want)
			}
		}
	}
}

// randomService is one of some address and port, and whether an API server would take it; a right one
// where that is wanted.
func randomService(r *rand.Rand, name string, right bool) (doc string, sound bool) {
	port, more := fmt.Sprint(80+r.IntN(3)), ""
	if !right {
		switch r.IntN(8) {
		case 0:
			port = "99999"
		case 1:
			port = "http"
		case 2:
			more = ", prots: []"
		case 3:
			more = ", type: Odd"
		}
	}
	sound = port != "99999" && port != "http" && more == ""
	return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {clusterIP: 10.96.0.%d, ports: [{port: 7}, {port: %s}]%s}}", name, 1+r.IntN(9), port, more), sound
}
