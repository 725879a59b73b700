package flows

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write flows.txt")

// Each flow comes to what is expected with each engine, or to what the list of
// differences says.
func TestFlows(t *testing.T) {
	flows := rows(all)
	var mu sync.Mutex
	got := map[string][]outcome{} // one that this machine cannot run is missing
	var done sync.WaitGroup
	start := time.Now()
	for _, e := range engines {
		done.Go(func() {
			all := e.observeAll(flows)
			mu.Lock()
			defer mu.Unlock()
			got[e.name] = all
			t.Logf("%s: %d flows after %s", e.name, len(flows), time.Since(start).Round(time.Millisecond))
		})
	}
	done.Wait()
	for _, e := range engines {
		e.usedEnvoy(t, flows)
	}
	text := report(t, flows, got)
	if t.Failed() {
		for _, e := range engines {
			t.Log(tail(e.logs()))
		}
	}
	if *update {
		if err := os.WriteFile("flows.txt", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if golden, err := os.ReadFile("flows.txt"); err != nil || string(golden) != text {
		t.Errorf("flows.txt is another, %v: go test ./test/flows -update", err)
	}
}

// usedEnvoy holds that what is Envoy's came by Envoy: nothing else tells, where both
// paths answer alike.
func (e *engine) usedEnvoy(t *testing.T, flows []flow) {
	t.Helper()
	if e.node.Envoy == nil {
		return
	}
	stats, err := e.node.Admin("/stats?filter=upstream_cx_total")
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, f := range flows {
		if !takesEnvoy(e.name, f) || !e.expect(f).answered() {
			continue
		}
		looked++
		if name := strings.ReplaceAll(e.address(f).String(), ":", "_"); !strings.Contains(stats, "cluster."+name+".upstream_cx_total") {
			t.Errorf("%s: %s did not come by Envoy", e.name, f)
		}
	}
	if looked == 0 {
		t.Errorf("%s: no flow is Envoy's", e.name)
	}
}

// expectWith is what comes of a flow with an engine, and the difference that makes
// it so, -1 for none.
func expectWith(engine string, f flow) (outcome, int) {
	want := expect(f)
	for i, d := range differences {
		if slices.Contains(d.engines, engine) && d.of(engine, f) {
			if gives := d.gives(f, want); gives.String() != want.String() {
				return gives, i
			}
		}
	}
	return want, -1
}

// expect is expectWith of the engine.
func (e *engine) expect(f flow) outcome {
	want, _ := expectWith(e.name, f)
	return want
}

// legend is how the table is read.
const legend = `Who dials what on a node, and who answers as whom (go doc ./test/flows).

  A Service's policy, of its ClusterIP and of its other addresses, and what else it has | its endpoints:
  here (of this node), mate (of another node of its unit), far (of another unit); ~ terminates and serves,
  ! does not serve any more, ? is not ready.
  from: a pod of this node, itself (the pod that is "here"), the host; and, led here: a pod of another node, that node, a machine outside.
  packets: all are TCP and UDP, of IPv4 and IPv6.
  expected: who answers, each of them, and if it sees the client's own address or the node's; refused; dropped (silence);
  beyond is whoever has the address besides this node.
  = is what is expected, - was not asked (kube-proxy knows no topologyKeys), (n) is a difference, below.

`

// report compares, and returns the table.
func report(t *testing.T, flows []flow, got map[string][]outcome) string {
	t.Helper()
	met, said := map[string]int{}, map[string]bool{}
	var results []result
	for n, f := range flows {
		r := result{flow: f, want: expect(f).String()}
		for _, name := range engineNames {
			is, by := expectWith(name, f)
			if all := got[name]; all != nil && !passesOver(name, f) && all[n].String() != is.String() {
				key := fmt.Sprintf("%s: %s (%s; %s): %s, want %s", name, f.to, f.about(), f.ends, all[n], is)
				if !said[key] { // of flows that are wrong alike one
					t.Errorf("%s: %s: %s, want %s", name, f, all[n], is)
				}
				said[key], is, by = true, all[n], -1
			}
			if by >= 0 {
				met[fmt.Sprint(by, name)]++
			}
			r.got = append(r.got, cell(name, f, is, by))
		}
		results = append(results, r)
	}
	text := legend + table(results) + "\nDifferences\n"
	for i, d := range differences {
		for _, name := range d.engines {
			if met[fmt.Sprint(i, name)] == 0 {
				t.Errorf("%s has no such difference: %s", name, d.reason)
			}
		}
		text += fmt.Sprintf("  (%d) %s: %s\n", i+1, strings.Join(d.engines, ", "), d.reason)
	}
	return text
}

// cell is what the table has of a flow with an engine.
func cell(engine string, f flow, is outcome, by int) string {
	switch {
	case passesOver(engine, f):
		return "-"
	case by >= 0:
		return fmt.Sprintf("%s (%d)", is, by+1)
	case is.String() == expect(f).String():
		return "="
	}
	return is.String()
}

func tail(text string) string {
	const most = 4 << 10
	return text[max(0, len(text)-most):]
}
