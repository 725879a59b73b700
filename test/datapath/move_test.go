package datapath

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

// Moving a node to another unit moves its new connections; open ones live on.
func TestLabelChangeMovesTraffic(t *testing.T) {
	f := deploy(t, "move", `["unit"]`)
	f.served(t)
	e := w.nodes[0]
	open, err := e.NS.Dial(context.Background(), "tcp", f.at(0).String())
	must(t, err)
	defer open.Close()
	reader := bufio.NewReader(open)
	ask := func() (string, error) {
		_ = open.SetDeadline(time.Now().Add(2 * time.Second))
		if _, err := fmt.Fprintln(open, "who"); err != nil {
			return "", err
		}
		return reader.ReadString('\n')
	}
	before, err := ask()
	must(t, err)
	if !strings.HasPrefix(before, "move-a-") {
		t.Fatalf("answered by %s", before)
	}
	w.state.node(e.Name, map[string]string{"unit": "b", "kubernetes.io/hostname": e.Name})
	must(t, w.state.write())
	t.Cleanup(func() {
		w.state.node(e.Name, map[string]string{"unit": "a", "kubernetes.io/hostname": e.Name})
		must(t, w.state.write())
	})
	took := eventually(t, 5*time.Second, func() error {
		for range 8 {
			a, err := edge.Ask(e.NS, "tcp", f.at(0), time.Second)
			if err != nil {
				return err
			}
			if a.Name == "move-a-2" {
				return fmt.Errorf("still answered by %s", a.Name)
			}
		}
		return nil
	})
	t.Logf("new connections followed %s after the file (which is read every 250ms)", took)
	if after, err := ask(); err != nil || after != before {
		t.Errorf("the open connection did not live on: %q, %v", after, err)
	}
}
