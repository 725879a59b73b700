package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/outage"
	"github.com/gridmesh/gridmesh/node/statedir"
)

// disk gives the state directory a disk of its own, of some KiB.
func (r *rig) smallDisk(t *testing.T, kib int) {
	t.Helper()
	dir := r.cfg.StateDir
	must(t, unix.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("mode=0700,size=%dk", kib)))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

// fill leaves so much room on the disk of the state directory and no more.
func (r *rig) fill(t *testing.T, room int64) {
	t.Helper()
	path := filepath.Join(r.cfg.StateDir, "filler")
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	info, err := f.Stat()
	must(t, err)
	must(t, f.Truncate(info.Size()-room))
}

// unkept is what the status says of the state directory; "" for nothing.
func (r *rig) unkept() string {
	for _, f := range r.agent.status().Findings {
		if f.Kind == stateUnkept {
			return f.Text
		}
	}
	return ""
}

// A disk that does not take the state, but still takes a note, vouches for
// nothing: what was deleted before an outage does not come back with it. Said
// for as long as it is so; a state that was written is held as ever.
func TestAStateThatWasNotWrittenIsNotVouchedFor(t *testing.T) {
	if !inside(t, "A FULL DISK", unix.CLONE_NEWNS) {
		return
	}
	for name, tc := range map[string]struct {
		online, cut time.Duration // before and after the cut; then it dies
		room        bool          // at last, before the cut
		held        bool
	}{
		"dies with the link":                    {online: outage.VouchFor + time.Minute},
		"dies in an outage":                     {online: outage.VouchFor + time.Minute, cut: time.Minute},
		"dies in a long one":                    {online: outage.VouchFor + time.Minute, cut: outage.VouchFor + time.Minute},
		"room again":                            {online: outage.VouchFor + time.Minute, room: true, held: true},
		"room again, dies in an outage":         {online: outage.VouchFor + time.Minute, cut: time.Minute, room: true, held: true},
		"room again, dies in a long one":        {online: outage.VouchFor + time.Minute, cut: outage.VouchFor + time.Minute, room: true, held: true},
		"a state of just before is vouched for": {online: time.Minute, cut: time.Minute, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.smallDisk(t, 256)
				r.api = &nodetest.API{Pods: prefixes("10.244.1.0/24")}
				r.mustStart(t)
				o := unitWeb()
				for i := range 100 { // the state needs more room than a note
					o.Closed(fmt.Sprintf("s%03d", i), fmt.Sprintf("10.96.1.%d", i), map[string]string{"a-2": fmt.Sprintf("10.244.3.%d", i)})
				}
				r.hear(o)
				after(2 * statedir.SaveInterval)
				if got := r.unkept(); got != "" {
					t.Errorf("with room on the disk: %s", got)
				}
				r.fill(t, 8<<10)
				o.Gone("web", onA2)
				r.hear(o)
				after(tc.online)
				if got := r.unkept(); !strings.Contains(got, "no space left on device") || r.metric(t, "gridmesh_node_findings") != 1 || len(r.api.Events()) != 1 {
					t.Errorf("a full disk: %q, Events %q", got, r.api.Events())
				}
				if tc.room {
					must(t, os.Remove(filepath.Join(r.cfg.StateDir, "filler")))
					after(2 * statedir.SaveInterval)
					if got := r.unkept(); got != "" {
						t.Errorf("with room again: %s", got)
					}
				}
				r.cut(tc.cut)
				r.restart(t, true, 0)
				r.restart(t, true, 0) // and another one
				after(time.Minute)
				r.heal()
				if tc.held {
					o.Unready("web", onA1)
				}
				r.hear(o)
				switch {
				case tc.held && tc.room:
					r.wantEnvoy(t, "healed", onA1)
					r.wantHeld(t, "healed", 1)
				case tc.held: // also what was deleted a minute before, of which the state knows nothing
					r.wantEnvoy(t, "healed", onA1, onA2)
				default:
					r.wantEnvoy(t, "healed", onA1)
					r.wantHeld(t, "healed", 0)
				}
			})
		})
	}
}

// What is in the place of the agent's files and is none of them is set aside at
// once: a start does not wait for the end of a pipe, nor read a device.
func TestOddFilesInTheStateDirectory(t *testing.T) {
	for name, put := range testkit.OddFiles {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.api = &nodetest.API{Pods: prefixes("10.244.1.0/24")}
				for _, file := range []string{"state", "outage", "contact"} {
					must(t, put(filepath.Join(r.cfg.StateDir, file)))
				}
				r.mustStart(t)
				o := unitWeb()
				r.hear(o)
				r.wantEnvoy(t, "started", onA1, onA2)
				r.wantHeld(t, "started", 0)
				after(statedir.SaveInterval + contactEvery)
				if got := r.unkept(); got != "" || r.saved(t) == nil || r.exists("outage") || !r.exists("contact") {
					t.Errorf("kept is: %q, an outage: %v, a contact: %v", got, r.exists("outage"), r.exists("contact"))
				}
				r.cut(time.Minute)
				r.restart(t, true, 0)
				after(time.Minute)
				r.heal()
				o.Unready("web", onA1, onA2)
				r.hear(o)
				r.wantEnvoy(t, "healed", onA1, onA2)
				for _, file := range []string{"state", "outage", "contact"} {
					if !r.exists(file + ".bad") {
						t.Errorf("%s was not set aside", file)
					}
				}
			})
		})
	}
}
