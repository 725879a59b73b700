// Package testkit holds what the tests of several rooms need.
package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const inside = "GRIDMESH_TEST_NAMESPACE"

// Namespaced runs a package's tests as root of a user namespace of their own:
// it starts the test binary again inside. Where the kernel does not permit
// that, the tests run as they are and those that want a Network are skipped.
//
//	func TestMain(m *testing.M) { testkit.Namespaced(m.Run) }
func Namespaced(run func() int) {
	if os.Getenv(inside) == "" {
		code, err := enter()
		if err == nil {
			os.Exit(code)
		}
		fmt.Fprintf(os.Stderr, "testkit: SKIPPING every test that needs a network namespace: %v\n", err)
	} else if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fmt.Fprintln(os.Stderr, "testkit: make mounts private:", err)
		os.Exit(1)
	}
	os.Exit(run())
}

// enter starts the program again inside and returns its exit code; an error
// means that it could not be started.
func enter() (code int, err error) {
	runtime.LockOSThread() // the parent-death signal is tied to the thread that forks
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWNS,
		Pdeathsig:   syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// Network is a network namespace.
type Network struct {
	NS netns.NsHandle
	t  testing.TB
}

// NewNetwork moves the test into a network of its own that has nothing but lo.
// The test stays on its thread from then on; goroutines that it starts do not
// follow it there.
func NewNetwork(t testing.TB) *Network {
	t.Helper()
	if os.Getenv(inside) == "" {
		t.Skip("needs user and network namespaces (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	n := &Network{t: t}
	n.enterNew()
	return n
}

// Add makes another network beside the test's.
func (n *Network) Add() *Network {
	n.t.Helper()
	other := &Network{t: n.t}
	n.run(other.enterNew)
	return other
}

// Do runs f in the network, on a thread of its own.
func (n *Network) Do(f func() error) error {
	var err error
	n.run(func() {
		if err = netns.Set(n.NS); err == nil {
			err = f()
		}
	})
	return err
}

// run runs f on a thread that ends with it.
func (n *Network) run(f func()) {
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(done)
		f()
	}()
	<-done
}

func (n *Network) enterNew() {
	ns, err := netns.New()
	if err == nil {
		n.NS = ns
		n.t.Cleanup(func() { _ = ns.Close() })
		var lo netlink.Link
		if lo, err = netlink.LinkByName("lo"); err == nil {
			err = netlink.LinkSetUp(lo)
		}
	}
	if err != nil {
		n.t.Error("make a network namespace:", err)
	}
}
