package walk

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/cgroup"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// down ends a lab by its own command: it is gone when that returns, and leaves
// nothing.
func (l *lab) down() {
	l.t.Helper()
	spaces := l.spaces()
	l.says(0, words("down"))
	l.says(1, words("status"), "no lab runs")
	l.leavesNothing(spaces)
}

// early is when a lab becomes a process in namespaces of its own: on a machine
// of any speed some of the moments are before, some after.
const early = 150 * time.Millisecond

// A lab that is killed leaves nothing, whatever it was doing.
func TestKilledLeavesNothing(t *testing.T) {
	mounts := hostMounts(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	for range 15 {
		killAfter(t, time.Duration(dice.Int64N(int64(early))), "--units", "1", "--nodes", "1")
	}
	begin := time.Now()
	l := up(t, "--units", "2", "--nodes", "1")
	took := time.Since(begin)
	l.kill()
	for range 4 {
		killAfter(t, time.Duration(dice.Int64N(int64(took))), "--units", "2", "--nodes", "1")
	}
	if now := hostMounts(t); now != mounts {
		t.Errorf("mounts of this machine, before:\n%s\nafter:\n%s", mounts, now)
	}
}

// Real nodes have control groups, too, which no namespace takes away.
func TestKilledRealLeavesNothing(t *testing.T) {
	needReal(t)
	mounts := hostMounts(t)
	begin := time.Now()
	l := up(t, "--real", "--units", "1", "--nodes", "1", "--proxy", "none")
	took := time.Since(begin)
	l.kill()
	for range 2 {
		killAfter(t, rand.N(took), "--real", "--units", "1", "--nodes", "1", "--proxy", "none")
	}
	if now := hostMounts(t); now != mounts {
		t.Errorf("mounts of this machine, before:\n%s\nafter:\n%s", mounts, now)
	}
}

func killAfter(t *testing.T, d time.Duration, args ...string) {
	t.Helper()
	l := launch(t, args...)
	time.Sleep(d) // the moment
	if l.hasEnded() {
		t.Errorf("it ended by itself:\n%s", l.out.String())
	}
	t.Logf("killed after %s", d.Round(time.Millisecond))
	l.kill()
}

// kill kills the process that people see, and nothing else.
func (l *lab) kill() {
	l.t.Helper()
	spaces := l.spaces()
	must(l.t, l.cmd.Process.Kill())
	<-l.ended
	l.leavesNothing(spaces)
}

// spaces are the namespaces that the lab's processes have and this test has not.
func (l *lab) spaces() map[string]bool {
	mine := map[string]bool{}
	for _, space := range spacesOf("self") {
		mine[space] = true
	}
	all := map[string]bool{}
	for _, pid := range l.processes() {
		for _, space := range spacesOf(pid) {
			all[space] = !mine[space]
		}
	}
	return all
}

func spacesOf(pid string) (list []string) {
	links, _ := filepath.Glob("/proc/" + pid + "/ns/*")
	for _, link := range links {
		if space, err := os.Readlink(link); err == nil {
			list = append(list, space)
		}
	}
	return list
}

// processes are those with the lab's name in their environment, which containers
// do not inherit: these are found by their namespaces.
func (l *lab) processes() (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err == nil && bytes.Contains(env, []byte(variable+l.name+"\x00")) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}

// leavesNothing waits until nothing is left: no process, none in one of the
// lab's namespaces, no control group, no address, no file.
func (l *lab) leavesNothing(spaces map[string]bool) {
	l.t.Helper()
	wait.Eventually(l.t, func() error {
		var errs []error
		for _, pid := range l.processes() {
			name, _ := os.ReadFile("/proc/" + pid + "/cmdline")
			errs = append(errs, fmt.Errorf("process %s is left: %s", pid, bytes.ReplaceAll(name, []byte{0}, []byte{' '})))
		}
		dirs, _ := filepath.Glob("/proc/[0-9]*")
		for _, dir := range dirs {
			for _, space := range spacesOf(filepath.Base(dir)) {
				if spaces[space] {
					errs = append(errs, fmt.Errorf("%s is left, of %s", space, dir))
				}
			}
		}
		left, err := cgroup.Of(l.cmd.Process.Pid)
		if len(left) > 0 {
			errs = append(errs, fmt.Errorf("control groups are left: %q", left))
		}
		return errors.Join(append(errs, err)...)
	})
	l.says(1, words("status"), "no lab runs")
	if files, err := os.ReadDir(l.tmp); err != nil || len(files) > 0 {
		l.t.Errorf("files are left: %v, %v", files, err)
	}
}

// hostMounts are the mounts that this test sees.
func hostMounts(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mounts")
	must(t, err)
	return strings.TrimSpace(string(data))
}
