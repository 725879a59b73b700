package edge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// ResidentMiB is the memory of a process.
func (p *Process) ResidentMiB() (mib int, err error) {
	path := fmt.Sprintf("/proc/%d/status", p.PID())
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &mib); n == 1 {
			return mib >> 10, nil
		}
	}
	return 0, fmt.Errorf("%s has no VmRSS: has %s ended?", path, p.Name)
}

// PodProcesses are a pod's processes, the oldest first: those whose network is
// the pod's, where the stand-in for the kubelet made that, or those in its
// control group.
func PodProcesses(uid string) (pids []int, err error) {
	of := func(dir string) bool {
		data, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		return err == nil && strings.Contains(string(data), "/pod"+uid+"/")
	}
	want, err := os.Stat("/run/netns/pod-" + uid)
	switch {
	case err == nil:
		of = func(dir string) bool {
			got, err := os.Stat(filepath.Join(dir, "ns/net"))
			return err == nil && os.SameFile(want, got)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		if !of(dir) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	if len(pids) == 0 {
		return nil, fmt.Errorf("no process of pod %s was found", uid)
	}
	slices.Sort(pids)
	return pids, nil
}

// KillPod kills every process of a pod.
func KillPod(uid string) error {
	pids, err := PodProcesses(uid)
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return err
}
