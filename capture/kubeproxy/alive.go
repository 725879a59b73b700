package kubeproxy

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/sockdiag"
)

// Ports of kube-proxy, where its configuration has no others: its health, and its metrics.
var Ports = []uint16{10256, 10249}

// Process is one of kube-proxy.
type Process struct {
	PID  int
	Args []string
}

func (p Process) String() string { return fmt.Sprintf("process %d is kube-proxy", p.PID) }

// Alive says why kube-proxy counts as running here; "" for no sign of it. In a
// container that does not see the node's processes its ports tell, unless this process has them.
func Alive() (string, error) {
	list, err := Processes("/proc")
	if len(list) > 0 {
		return list[0].String(), nil
	}
	port, unheard := heldPort()
	if port > 0 {
		return fmt.Sprintf("somebody listens on port %d, which is kube-proxy's", port), nil
	}
	return "", errors.Join(err, unheard)
}

// Processes are those of kube-proxy in this network, as far as they are to be seen below proc.
func Processes(proc string) (list []Process, err error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("look for kube-proxy's process: %w", err)
	}
	here, _ := os.Readlink(filepath.Join(proc, "thread-self/ns/net"))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join(proc, e.Name(), "cmdline"))
		if err != nil {
			continue // it has ended
		}
		args := strings.Split(string(bytes.TrimRight(line, "\x00")), "\x00")
		if !isProxy(args) {
			continue
		}
		if net, err := os.Readlink(filepath.Join(proc, e.Name(), "ns/net")); err != nil || net != here {
			continue // of another network, or nobody may know of which: its ports tell then
		}
		list = append(list, Process{pid, args})
	}
	return list, nil
}

// isProxy knows kube-proxy by its own name, and as the first word of a program that has others.
func isProxy(args []string) bool {
	if slices.ContainsFunc(args, func(a string) bool { return a == "--cleanup" || a == "--cleanup=true" }) {
		return false
	}
	return filepath.Base(args[0]) == "kube-proxy" || len(args) > 1 && args[1] == "kube-proxy"
}

// heldPort is a port of kube-proxy on which another process listens; 0 for none.
func heldPort() (uint16, error) {
	conn, err := sockdiag.Dial()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	all, err := conn.Both(unix.IPPROTO_TCP, sockdiag.Listen, 0)
	if err != nil {
		return 0, err
	}
	ours := ownSockets()
	for _, s := range all {
		if slices.Contains(Ports, s.Local.Port()) && !ours[s.Inode] {
			return s.Local.Port(), nil
		}
	}
	return 0, nil
}

// ownSockets are this process's, by inode.
func ownSockets() map[uint32]bool {
	ours := map[uint32]bool{}
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range fds {
		target, err := os.Readlink(fd)
		if err != nil {
			continue
		}
		if number, ok := strings.CutPrefix(target, "socket:["); ok {
			if inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 32); err == nil {
				ours[uint32(inode)] = true
			}
		}
	}
	return ours
}
