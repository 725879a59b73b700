package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// exitCode is the exit code of a command that ran inside.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// The control socket lies outside the sandbox's tmpfs, for its owner alone.
func controlPath() string {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" || strings.HasPrefix(dir, "/run") {
		dir = filepath.Join("/var/tmp", fmt.Sprintf("gridmesh-lab-%d", labOwner()))
	}
	return filepath.Join(dir, "control.sock")
}

// labOwner is the user outside, also where the sandbox maps it to root.
func labOwner() int {
	if text := os.Getenv("GRIDMESH_LAB_UID"); text != "" {
		var uid int
		if _, err := fmt.Sscan(text, &uid); err == nil {
			return uid
		}
	}
	return os.Getuid()
}

// alone returns an error where another lab runs: there is one control socket.
func alone() error {
	path := controlPath()
	if conn, err := net.Dial("unix", path); err == nil {
		_ = conn.Close()
		return fmt.Errorf("another lab runs (%s); stop it with: lab down", path)
	}
	return nil
}

// serve answers the control socket until ctx ends.
func serve(ctx context.Context, c *cluster.Cluster) error {
	path := controlPath()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := alone(); err != nil { // one that began at the same time
		return err
	}
	_ = os.Remove(path)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		return err
	}
	defer os.Remove(path)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil
		}
		go answer(ctx, c, conn, cancel)
	}
}

// request is a command line and where it was typed; the caller's standard
// files come along.
type request struct {
	Args []string
	Dir  string
}

// call is one request that is being answered.
type call struct {
	ctx   context.Context // ends with the caller
	c     *cluster.Cluster
	dir   string
	files [3]*os.File
}

// answer does what is asked for and says the exit code. What it started ends
// with the caller.
func answer(ctx context.Context, c *cluster.Cluster, conn *net.UnixConn, down func()) {
	defer conn.Close()
	r, files, err := receive(conn)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // a caller says nothing more; when it ends, so does the connection
		_, _ = conn.Read(make([]byte, 1))
		cancel()
	}()
	code := 0
	if err := do(&call{ctx, c, r.Dir, files}, r.Args, down); err != nil {
		code = 1
		var inside exitCode
		if errors.As(err, &inside) {
			code = int(inside)
		} else {
			fmt.Fprintln(files[2], "lab:", err)
		}
	}
	for _, f := range files {
		_ = f.Close()
	}
	_, _ = fmt.Fprintln(conn, code)
}

func receive(conn *net.UnixConn) (r request, files [3]*os.File, err error) {
	buf, oob := make([]byte, 1<<16), make([]byte, unix.CmsgSpace(3*4))
	n, m, _, _, err := conn.ReadMsgUnix(buf, oob)
	if err != nil {
		return r, files, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:m])
	if err != nil || len(messages) != 1 {
		return r, files, errors.Join(err, errors.New("no files"))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 3 {
		return r, files, errors.Join(err, errors.New("not three files"))
	}
	for i, fd := range fds {
		files[i] = os.NewFile(uintptr(fd), "")
	}
	return r, files, json.Unmarshal(buf[:n], &r)
}

// do runs one command of people inside.
func do(c *call, args []string, down func()) error {
	if len(args) == 0 {
		return errors.New("no command")
	}
	switch verb, rest := args[0], args[1:]; verb {
	case "down":
		down()
		return nil
	case "status":
		return status(c.c, c.files)
	case "cut", "heal":
		return cut(c.c, verb == "cut", rest)
	case "kill", "start":
		return program(c.c, verb == "start", rest)
	case "kubectl":
		return c.kubectl(rest)
	case "exec":
		return c.execute(rest)
	}
	return fmt.Errorf("unknown command %q", args[0])
}

func status(c *cluster.Cluster, files [3]*os.File) error {
	fmt.Fprintf(files[1], "%-8s %-8s %-8s %-15s %-16s %s\n", "NODE", "UNIT", "PODS", "ADDRESS", "POD CIDR", "PROXY")
	for _, n := range c.Lab.Nodes() {
		node, proxy := c.Nodes[n.Name], "-"
		switch {
		case node.Agent != nil:
			proxy = fmt.Sprintf("gridmesh (agent %s, envoy %s)", alive(node.Agent), alive(node.Envoy))
		case node.KubeProxy != nil:
			proxy = "kube-proxy " + alive(node.KubeProxy)
		}
		fmt.Fprintf(files[1], "%-8s %-8s %-8s %-15s %-16s %s\n", n.Name, n.Unit.Name, n.Network, n.IP, n.PodCIDR, proxy)
	}
	return nil
}

func alive(p *edge.Process) string {
	if p != nil && p.Running() {
		return "runs"
	}
	return "stopped"
}

func cut(c *cluster.Cluster, on bool, args []string) error {
	usage := errors.New("say: uplink UNIT, node NODE, or link UNIT UNIT")
	if len(args) < 2 {
		return usage
	}
	u, n := c.Lab.Unit(args[1]), c.Lab.Node(args[1])
	switch {
	case args[0] == "uplink" && u != nil && on:
		return u.CutUplink()
	case args[0] == "uplink" && u != nil:
		return u.HealUplink()
	case args[0] == "node" && n != nil && on:
		return n.Cut()
	case args[0] == "node" && n != nil:
		return n.Heal()
	case args[0] == "link" && u != nil && len(args) == 3 && on:
		return u.CutLink(args[2])
	case args[0] == "link" && u != nil && len(args) == 3:
		return u.HealLink(args[2])
	}
	return usage
}

func remoteCommands() []*cobra.Command {
	var list []*cobra.Command
	for _, r := range []struct{ use, short string }{
		{"kill agent|envoy|dns|kubelet NODE", "End a program of a node at once"},
		{"start agent|envoy|dns|kubelet NODE", "Start a program of a node that has ended"},
		{"down", "Stop the cluster that runs"},
		{"status", "Show nodes, units and proxies"},
		{"cut uplink UNIT | node NODE | link UNIT UNIT", "Cut a link: everything on it is dropped in silence"},
		{"heal uplink UNIT | node NODE | link UNIT UNIT", "Heal a link"},
		{"kubectl ...", "Run kubectl as the administrator"},
		{"exec NODE|POD COMMAND...", "Run a command in the network of a node or pod"},
	} {
		verb, _, _ := strings.Cut(r.use, " ")
		list = append(list, &cobra.Command{
			Use: r.use, Short: r.short, DisableFlagParsing: verb == "kubectl" || verb == "exec",
			RunE: func(_ *cobra.Command, args []string) error { return remote(append([]string{verb}, args...)) },
		})
	}
	return list
}

// remote asks the lab that runs.
func remote(args []string) error {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: controlPath()})
	if err != nil {
		return fmt.Errorf("no lab runs; start one with: lab up, or make demo KEEP=1 (%w)", err)
	}
	defer conn.Close()
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	data, err := json.Marshal(request{args, dir})
	if err != nil {
		return err
	}
	rights := syscall.UnixRights(0, 1, 2)
	if _, _, err := conn.WriteMsgUnix(data, rights, nil); err != nil {
		return err
	}
	var code int
	if _, err := fmt.Fscan(conn, &code); err != nil {
		if args[0] == "down" {
			return nil
		}
		return fmt.Errorf("the lab ended: %w", err)
	}
	if code != 0 {
		return exitCode(code)
	}
	return nil
}
