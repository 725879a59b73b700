// Package cgroup makes and removes the control groups of a lab's real nodes.
//
// They are the one thing of a lab that the kernel does not remove with its
// last process. Each lab has one name for them that says whose they are, so
// that what kill -9 left is found and removed by whoever comes next.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Env holds the name of the lab's control group inside a sandbox.
const Env = "GRIDMESH_LAB_CGROUP"

const prefix = "gridmesh-lab-"

// Own names the control group of a lab that the calling process starts: by its
// process namespace, its number there, and when it began.
func Own() (string, error) {
	namespace, err := pidNamespace()
	if err != nil {
		return "", err
	}
	began, err := startTime(os.Getpid())
	return fmt.Sprintf("%s%s-%d-%s", prefix, namespace, os.Getpid(), began), err
}

// pidNamespace is the number of the process namespace.
func pidNamespace() (string, error) {
	link, err := os.Readlink("/proc/self/ns/pid")
	return strings.Trim(strings.TrimPrefix(link, "pid:"), "[]"), err
}

// startTime is in ticks after the machine's start (proc(5), stat, field 22).
func startTime(pid int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field is a name in brackets, which may hold blanks.
	rest := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	const field = 22 - 3
	if len(rest) <= field {
		return "", fmt.Errorf("/proc/%d/stat has %d fields", pid, len(rest)+2)
	}
	return rest[field], nil
}

// hierarchy is one mounted tree of control groups.
type hierarchy struct {
	dir    string
	cpuset bool // of version 1, where a new group has no CPUs
}

// hierarchies are all that are mounted, which may be none.
func hierarchies() (list []hierarchy, err error) {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[2] != "cgroup" && f[2] != "cgroup2" {
			continue
		}
		list = append(list, hierarchy{dir: f[1], cpuset: f[2] == "cgroup" && slices.Contains(strings.Split(f[3], ","), "cpuset")})
	}
	return list, nil
}

// Make makes a group, such as "LAB/NODE", in every hierarchy. The kubelet wants
// its root group there, with CPUs.
func Make(path string) error {
	list, err := hierarchies()
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return errors.New("no control groups are mounted")
	}
	for _, h := range list {
		dir := h.dir
		for part := range strings.SplitSeq(path, "/") {
			parent := dir
			dir = filepath.Join(dir, part)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			if !h.cpuset {
				continue
			}
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				value, err := os.ReadFile(filepath.Join(parent, file))
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, file), value, 0o644)
				}
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// patience is how long processes that were killed may take to go.
const patience = 10 * time.Second

// Remove removes a group with all below it, once its processes are gone.
func Remove(path string) error {
	deadline := time.Now().Add(patience)
	for {
		left, err := Left(path)
		if err != nil {
			return err
		}
		var errs []error
		for _, dir := range slices.Backward(left) { // children before parents
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		if len(errs) == 0 || time.Now().After(deadline) {
			return errors.Join(errs...)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Left lists what there is of a group, parents before children.
func Left(path string) (dirs []string, err error) {
	list, err := hierarchies()
	if err != nil {
		return nil, err
	}
	for _, h := range list {
		err := filepath.WalkDir(filepath.Join(h.dir, path), func(dir string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && d.IsDir() {
				dirs = append(dirs, dir)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return dirs, nil
}

// Sweep removes the groups of labs whose first process has ended.
func Sweep() error {
	list, err := hierarchies()
	if err != nil {
		return err
	}
	namespace, err := pidNamespace()
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range list {
		found, _ := filepath.Glob(filepath.Join(h.dir, prefix+namespace+"-*"))
		for _, dir := range found {
			if name := filepath.Base(dir); ended(strings.TrimPrefix(name, prefix+namespace+"-")) {
				errs = append(errs, Remove(name))
			}
		}
	}
	return errors.Join(errs...)
}

// ended reports whether the process of a name's end, "PID-START", is gone.
func ended(who string) bool {
	number, began, _ := strings.Cut(who, "-")
	pid, err := strconv.Atoi(number)
	if err != nil {
		return false // not a name of ours
	}
	now, err := startTime(pid)
	return err != nil && errors.Is(err, fs.ErrNotExist) || err == nil && now != began
}

// Of lists the groups of the lab that a process has started, which may have
// ended since.
func Of(pid int) (dirs []string, err error) {
	list, err := hierarchies()
	if err != nil {
		return nil, err
	}
	namespace, err := pidNamespace()
	if err != nil {
		return nil, err
	}
	for _, h := range list {
		found, err := filepath.Glob(filepath.Join(h.dir, fmt.Sprintf("%s%s-%d-*", prefix, namespace, pid)))
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, found...)
	}
	return dirs, nil
}
