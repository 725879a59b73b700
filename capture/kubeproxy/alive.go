package kubeproxy

import (
	"bytes"
	"cmp"
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

// Of kube-proxy, where its configuration has no others.
const (
	HealthPort  = 10256
	MetricsPort = 10249
)

// Ports of kube-proxy are both.
var Ports = []uint16{HealthPort, MetricsPort}

// Process is one of kube-proxy.
type Process struct {
	PID  int
	Args []string
}

func (p Process) String() string { return fmt.Sprintf("process %d is kube-proxy", p.PID) }

// Signs are those that kube-proxy runs here, in words; "" for none. Processes are to be
// seen where those of the node are, and a port where this process does not have it.
type Signs struct {
	Process, Port string
	// Other is who has a port of kube-proxy's and is not root. It is no sign: anybody on the
	// node's network may have it, and would keep rules on the node for ever. A kube-proxy that
	// is not root's is known by its process, or by what it writes.
	Other string
}

// Text is why kube-proxy counts as running; "" for no sign of it.
func (s Signs) Text() string { return cmp.Or(s.Process, s.Port) }

// Alive looks for signs that kube-proxy runs.
func Alive() (s Signs, err error) {
	list, unseen := Processes("/proc")
	if len(list) > 0 {
		s.Process = list[0].String()
	}
	root, other, unheard := heldPorts(ownSockets())
	if root.port > 0 {
		s.Port = fmt.Sprintf("somebody listens on port %d, which is kube-proxy's", root.port)
	}
	if other.port > 0 {
		s.Other = fmt.Sprintf("user %d had port %d, which is kube-proxy's, and is not root: that is no sign of one", other.uid, other.port)
	}
	return s, errors.Join(unseen, unheard)
}

// Processes are those of kube-proxy in this network, as far as they are to be seen below proc.
// One of which nobody may know the network counts: so it is in a container, for all that
// may do more than it.
func Processes(proc string) (list []Process, err error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("look for kube-proxy's process: %w", err)
	}
	here, _ := os.Readlink(filepath.Join(proc, "thread-self/ns/net"))
	users, _ := os.ReadFile(filepath.Join(proc, "thread-self", usersFile))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join(proc, e.Name())
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue // it has ended
		}
		args := strings.Split(string(bytes.TrimRight(line, "\x00")), "\x00")
		if !isProxy(args) || !mayAdminister(dir, users) {
			continue
		}
		if net, err := os.Readlink(filepath.Join(dir, "ns/net")); err == nil && net != here || errors.Is(err, os.ErrNotExist) {
			continue
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

// usersFile has the users of a process's user namespace, and everybody may read it.
const usersFile = "uid_map"

// mayAdminister reports whether a process may write rules where this one may, as kube-proxy
// does: anybody may call a program so. Whose it is says nothing, for a kube-proxy needs not be
// root. But whoever makes a user namespace may all in that: so its users have to be this
// process's, of whom nobody else can give himself as many. It is what everybody may read of another's.
func mayAdminister(dir string, users []byte) bool {
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return false // it has ended
	}
	if theirs, _ := os.ReadFile(filepath.Join(dir, usersFile)); !bytes.Equal(theirs, users) {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "CapEff:" {
			caps, _ := strconv.ParseUint(fields[1], 16, 64)
			return caps&(1<<unix.CAP_NET_ADMIN) != 0
		}
	}
	return false
}

// holder is who listens on a port; zero for nobody.
type holder struct {
	port uint16
	uid  uint32
}

// heldPorts are a port of kube-proxy on which root listens, and one on which somebody else
// does, by other sockets than ours.
func heldPorts(ours map[uint32]bool) (root, other holder, err error) {
	all, err := listeners(0)
	if err != nil {
		return root, other, err
	}
	for _, s := range all {
		switch h := (holder{s.Local.Port(), s.UID}); {
		case !slices.Contains(Ports, h.port) || ours[s.Inode]:
		case h.uid == 0:
			root = h
		default:
			other = h
		}
	}
	return root, other, nil
}

// listeners are the sockets of TCP that listen on a port; with 0 on any.
func listeners(port uint16) ([]sockdiag.Socket, error) {
	conn, err := sockdiag.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.Both(unix.IPPROTO_TCP, sockdiag.Listen, port)
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
