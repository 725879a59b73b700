// Package testkit holds what the tests of several rooms need.
package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const inside = "GRIDMESH_TEST_NAMESPACE"

// Stranger is a user who is not root, where the tests were started by root.
const Stranger = 65534

// Namespaced runs a package's tests as root of a user namespace of their own:
// it starts the test binary again inside. Where the kernel does not permit
// that, the tests run as they are and those that want a Network are skipped.
//
//	func TestMain(m *testing.M) { testkit.Namespaced(m.Run) }
func Namespaced(run func() int) {
	if os.Getenv(inside) == "" {
		root := syscall.SysProcIDMap{ContainerID: 0, HostID: os.Getuid(), Size: 1}
		code, err := enter(root, syscall.SysProcIDMap{ContainerID: Stranger, HostID: Stranger, Size: 1})
		if err != nil { // who is not root, or has no such user, has but his own
			code, err = enter(root)
		}
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

// enter starts the program again inside, with these users, and returns its exit code; an error
// means that it could not be started.
func enter(users ...syscall.SysProcIDMap) (code int, err error) {
	runtime.LockOSThread() // the parent-death signal is tied to the thread that forks
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWNS,
		Pdeathsig:   syscall.SIGKILL,
		UidMappings: users,
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

// AsStranger begins f on a thread of its own, in the test's network, whose new sockets are
// the Stranger's, and has its error when it ends.
func AsStranger(t testing.TB, f func() error) <-chan error {
	t.Helper()
	NeedsStranger(t)
	here, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	began, ended := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with f
		err := netns.Set(here)
		_ = here.Close()
		_, _ = unix.SetfsuidRetUid(Stranger) // which has no error
		if is, _ := unix.SetfsuidRetUid(-1); err == nil && is != Stranger {
			err = errNoStranger
		}
		if began <- err; err == nil {
			ended <- f()
		}
	}()
	if err := <-began; err != nil {
		t.Fatal(err)
	}
	return ended
}

var errNoStranger = errors.New("the Stranger is no user here")

// NeedsStranger skips, loudly, where there is none.
func NeedsStranger(t testing.TB) {
	t.Helper()
	users, _ := os.ReadFile("/proc/self/uid_map")
	for line := range strings.Lines(string(users)) {
		if is := strings.Fields(line); is[0] == strconv.Itoa(Stranger) {
			return
		}
	}
	t.Skip("SKIPPED: needs a user besides: start the tests as root")
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
