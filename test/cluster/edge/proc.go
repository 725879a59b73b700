package edge

import (
	"errors"
	"fmt"
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

// PodProcesses are the processes whose network is a pod's, the oldest first.
func PodProcesses(uid string) (pids []int, err error) {
	want, err := os.Stat("/run/netns/pod-" + uid)
	if err != nil {
		return nil, err
	}
	links, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		got, err := os.Stat(link)
		if err != nil || !os.SameFile(want, got) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(link))))
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

// KillPod kills every process whose network is a pod's.
func KillPod(uid string) error {
	pids, err := PodProcesses(uid)
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return err
}
