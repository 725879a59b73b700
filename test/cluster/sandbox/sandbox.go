// Package sandbox runs a program inside namespaces of its own: processes,
// mounts, network, host name, and users where it does not start as root.
//
// There is one way with and without root, several sandboxes can live side by
// side, and nothing is left behind even after kill -9, because the kernel
// removes what is in a namespace with its last process. Control groups, which
// it does not, are removed by a process outside that waits for the sandbox's
// end; where that one is killed, too, by the next sandbox.
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
)

// Dir is a tmpfs of the sandbox: state, sockets, logs.
const Dir = "/run/lab"

// What a process is to a sandbox is in this variable of its environment.
const (
	role    = "GRIDMESH_SANDBOX"
	inside  = "1"
	sweeper = "sweeper"
)

// Run calls f inside a sandbox and exits with its result. It must be the
// first thing a program does: it starts the program again, with the same
// arguments, inside.
func Run(f func() int) { RunWith(nil, func(*os.File) int { return f() }) }

// Outside reports whether Run has not started the program inside yet.
func Outside() bool { return os.Getenv(role) == "" }

// RunWith is Run with a file of outside, which may be nil, that is handed in.
func RunWith(hand *os.File, f func(handed *os.File) int) {
	switch os.Getenv(role) {
	case "":
		os.Exit(enter(hand))
	case sweeper:
		os.Exit(sweep())
	}
	handed := received()
	endWithReader()
	if err := furnish(); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		os.Exit(1)
	}
	os.Exit(f(handed))
}

// enter starts the program again inside and passes signals and its result on.
func enter(hand *os.File) int {
	if err := missingRights(); err != nil {
		return failed(err)
	}
	// The parent-death signal is tied to the thread that forks.
	runtime.LockOSThread()
	alive, hold, err := os.Pipe()
	if err != nil {
		return failed(err)
	}
	defer hold.Close()
	cmd := self(inside, "TMPDIR="+Dir+"/tmp")
	give(cmd, alive, hand)
	cmd.Stdin = os.Stdin
	cmd.SysProcAttr = namespaces()
	swept, err := startSweeper(cmd, alive)
	if err != nil {
		return failed(err)
	}
	// It sees the end of hold, also where this process is killed.
	defer func() { _ = hold.Close(); swept() }()
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "sandbox: cannot make namespaces: %v\n", err)
		if os.Geteuid() != 0 {
			fmt.Fprintln(os.Stderr, "sandbox: without root this needs user namespaces (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)")
		}
		return 1
	}
	for _, f := range cmd.ExtraFiles { // what is inside has its own
		_ = f.Close()
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1)
	}
	if err != nil {
		return failed(err)
	}
	return 0
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, "sandbox:", err)
	return 1
}

// self is this program again, with a role.
func self(as string, env ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(append(os.Environ(), role+"="+as), env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd
}

func namespaces() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return attr
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
