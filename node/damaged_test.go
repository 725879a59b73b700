package node

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/statedir"
)

// A disk may cut off a file anywhere, and change any byte of it: the next agent starts, takes
// the whole of what was kept or none of it. (That it holds nothing for ever: outage.FuzzRecord.)
func TestDamagedFiles(t *testing.T) {
	kept := map[string][]byte{}
	synctest.Test(t, func(t *testing.T) {
		r, o := online(t)
		after(statedir.SaveInterval)
		r.cut(time.Minute)
		r.heal()
		o.Unready("web", onA1)
		r.hear(o)
		after(2 * statedir.SaveInterval)
		r.stop()
		for _, name := range []string{"state", "outage", "contact"} {
			data, err := os.ReadFile(filepath.Join(r.cfg.StateDir, name))
			must(t, err)
			kept[name] = data
		}
	})
	for name, whole := range kept {
		step := 1
		if name == "state" {
			step = 7 // source judges each byte
		}
		for n := 0; n < len(whole); n += step {
			flipped := bytes.Clone(whole)
			flipped[n] ^= 1 << (n % 8)
			for what, data := range map[string][]byte{"cut off": whole[:n], "changed": flipped} {
				if !startsWith(t, kept, name, data) {
					t.Fatalf("%s, %s at byte %d of %d", name, what, n, len(whole))
				}
			}
		}
	}
}

// startsWith starts an agent with what was kept, but for one file.
func startsWith(t *testing.T, kept map[string][]byte, name string, data []byte) (ok bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer func() { ok = !t.Failed() }()
		r := newRig(t)
		for other, content := range kept {
			must(t, os.WriteFile(filepath.Join(r.cfg.StateDir, other), content, 0o600))
		}
		path := filepath.Join(r.cfg.StateDir, name)
		must(t, os.WriteFile(path, data, 0o600))
		r.api = &nodetest.API{Pods: prefixes("10.244.1.0/24"), Away: errBroken}
		r.mustStart(t)
		after(time.Second)
		answers, _ := r.xds.Holds("10.96.0.10:80")
		if got := len(answers); got != 0 && got != 2 || name != "state" && got != 2 {
			t.Errorf("from disk: %v", answers)
		}
		if _, err := os.Stat(path + ".bad"); name == "state" && (err == nil) != (len(answers) == 0) {
			t.Errorf("set aside: %v, answered by %v", err, answers)
		}
		r.stop()
	})
	return ok
}
