package real

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster"
)

// refusals tells, node by node, what may have refused a dial: rules of ours that count, and
// how often the node's own kernel answered with RST. A dial of tens of thousands that fails
// leaves no other trace of who did it.
type refusals map[string]map[string]string

// say tells what is other than it was told before.
func (r refusals) say(t *testing.T) {
	t.Helper()
	for _, n := range c.Nodes {
		now, was := refusalsOf(t, n), r[n.Name]
		r[n.Name] = now
		for _, what := range slices.Sorted(maps.Keys(now)) {
			if now[what] != was[what] {
				t.Logf("%s: %s: %s, was %q", n.Name, what, now[what], was[what])
			}
		}
	}
}

var (
	counted  = regexp.MustCompile(`counter packets ([1-9][0-9]*) .*(drop|reject)`)
	beginsIn = regexp.MustCompile(`^\s*(table|chain) (.*) \{$`)
)

func refusalsOf(t *testing.T, n *cluster.Node) map[string]string {
	t.Helper()
	var out bytes.Buffer
	found := map[string]string{}
	for _, table := range []string{"gridmesh", "gridmesh_kernel"} {
		out.Reset()
		cmd := exec.Command("nft", "--terse", "list", "table", "inet", table) // no elements: there may be many
		cmd.Stdout = &out
		must(t, n.NS.Start(cmd))
		if cmd.Wait() != nil {
			continue // it is not there
		}
		chain := ""
		for line := range strings.Lines(out.String()) {
			if m := beginsIn.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
				chain = m[2]
			}
			if m := counted.FindStringSubmatch(line); m != nil {
				of, _, _ := strings.Cut(line, "counter")
				found[fmt.Sprintf("%s, chain %s: %s %s", table, chain, strings.TrimSpace(of), m[2])] = m[1] + " packets"
			}
		}
	}
	must(t, n.NS.Do(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err == nil {
			found["RST by its own kernel"] = outRsts(string(text))
		}
		return err
	}))
	return found
}

// outRsts is Tcp OutRsts of /proc/net/snmp: a line of names, and one of values.
func outRsts(text string) string {
	var names []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "Tcp:" {
			continue
		}
		if i := slices.Index(names, "OutRsts"); i > 0 && i < len(fields) {
			return fields[i]
		}
		names = fields
	}
	return "unknown"
}
