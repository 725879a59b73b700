// Package sandbox runs a program inside namespaces of its own: processes,
// mounts, network, host name, and users where it does not start as root.
//
// There is one way with and without root, several sandboxes can live side by
// side, and nothing is left behind even after kill -9, because the kernel
// removes what is in a namespace with its last process. Control groups, which
// it does not, are removed from outside, at the latest by the next sandbox.
package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/test/cluster/cgroup"
)

// Dir is a tmpfs of the sandbox: state, sockets, logs.
const Dir = "/run/lab"

const inside = "GRIDMESH_SANDBOX"

// Run calls f inside a sandbox and exits with its result. It must be the
// first thing a program does: it starts the program again, with the same
// arguments, inside.
func Run(f func() int) {
	if os.Getenv(inside) == "" {
		os.Exit(enter())
	}
	if err := furnish(); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		os.Exit(1)
	}
	os.Exit(f())
}

// enter starts the program again inside and passes signals and its result on.
func enter() int {
	// The parent-death signal is tied to the thread that forks.
	runtime.LockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), inside+"=1", "TMPDIR="+Dir+"/tmp", fmt.Sprintf("GRIDMESH_LAB_UID=%d", os.Getuid()))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	groups, err := ownGroups(cmd)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		return 1
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "sandbox: cannot make namespaces: %v\n", err)
		if os.Geteuid() != 0 {
			fmt.Fprintln(os.Stderr, "sandbox: without root this needs user namespaces (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)")
		}
		return 1
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	err = cmd.Wait()
	if left := groups(); left != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", left)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		return 1
	}
	return 0
}

// ownGroups gives the sandbox the name of its control groups and returns what
// removes them. Groups that others left when they were killed go now.
func ownGroups(cmd *exec.Cmd) (remove func() error, err error) {
	if os.Geteuid() != 0 {
		return func() error { return nil }, nil // and there are none
	}
	if err := cgroup.Sweep(); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox: remove what others left:", err)
	}
	name, err := cgroup.Own()
	if err != nil {
		return nil, err
	}
	cmd.Env = append(cmd.Env, cgroup.Env+"="+name)
	return func() error { return cgroup.Remove(name) }, nil
}

// furnish mounts what a sandbox needs and brings lo up.
func furnish() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount proc: %w", err)
	}
	if err := unix.Mount("lab", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	for _, dir := range []string{Dir + "/tmp", "/run/netns"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Sethostname([]byte("lab")); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}
