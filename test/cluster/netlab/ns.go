// Package netlab builds networks out of namespaces: a cloud, units with a
// router each, nodes, and pods of both kinds. Every link can be cut and healed.
package netlab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// The main thread is no place for namespaces: it outlives the goroutine that
// entered one, and stands for the whole process in /proc.
func init() { runtime.LockOSThread() }

// NS is a named network namespace.
type NS struct {
	Name  string
	fd    netns.NsHandle
	link  *netlink.Handle
	found bool // in a process; the name is not bound
}

// Path is where the namespace is bound, for other tools.
func (n *NS) Path() string { return nsDir + n.Name }

// nsDir has the names, and podPrefix begins those of pods.
const (
	nsDir     = "/run/netns/"
	podPrefix = "pod-"
)

// NewNS makes a namespace with lo up.
func NewNS(name string) (*NS, error) {
	n := &NS{Name: name}
	made := make(chan error)
	go func() {
		// Never unlocked: the thread belongs to the new namespace and ends
		// with the goroutine.
		runtime.LockOSThread()
		made <- n.make()
	}()
	if err := <-made; err != nil {
		return nil, fmt.Errorf("make namespace %s: %w", name, err)
	}
	return n, nil
}

func (n *NS) make() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(n.Path()), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(n.Path(), nil, 0o444); err != nil {
		return err
	}
	self := fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())
	if err := unix.Mount(self, n.Path(), "", unix.MS_BIND, ""); err != nil {
		return err
	}
	var err error
	if n.fd, err = netns.Get(); err != nil {
		return err
	}
	if n.link, err = netlink.NewHandleAt(n.fd, unix.NETLINK_ROUTE); err != nil {
		return err
	}
	lo, err := n.link.LinkByName("lo")
	if err != nil {
		return err
	}
	return n.link.LinkSetUp(lo)
}

// OpenNS opens a namespace that NewNS made, perhaps in another process, or
// "pod-UID" of a pod on a real node, whose runtime keeps the name to itself.
func OpenNS(name string) (*NS, error) {
	n := &NS{Name: name}
	path := n.Path()
	if uid, isPod := strings.CutPrefix(name, podPrefix); isPod {
		if _, err := os.Stat(path); os.IsNotExist(err) {
			if path, n.found = processOf(uid), true; path == "" {
				return nil, fmt.Errorf("open namespace %s: no such name, and no process of that pod", name)
			}
		}
	}
	var err error
	if n.fd, err = netns.GetFromPath(path); err != nil {
		return nil, fmt.Errorf("open namespace %s: %w", name, err)
	}
	n.link, err = netlink.NewHandleAt(n.fd, unix.NETLINK_ROUTE)
	return n, err
}

// processOf finds the network of a process in a pod's control group.
func processOf(uid string) string {
	groups, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, group := range groups {
		if data, err := os.ReadFile(group); err == nil && strings.Contains(string(data), "/pod"+uid+"/") {
			return filepath.Join(filepath.Dir(group), "ns/net")
		}
	}
	return ""
}

// Close removes the namespace's name and handles; the kernel removes the rest
// with the last process in it.
func (n *NS) Close() error {
	n.link.Close()
	if n.found {
		return n.fd.Close()
	}
	_ = n.fd.Close()
	return unbind(n.Path())
}

// unbind takes a name from its namespace.
func unbind(path string) error {
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return os.Remove(path)
}

// isBound says whether a namespace is at a path; a file alone is what NewNS
// leaves when it is killed, and takes again.
func isBound(path string) (bool, error) {
	var at unix.Statfs_t
	if err := unix.Statfs(path, &at); errors.Is(err, unix.ENOENT) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("look at %s: %w", path, err)
	}
	return at.Type == unix.NSFS_MAGIC, nil
}

// Leave gives up the handles of a namespace that OpenNS opened; its name stays.
func (n *NS) Leave() {
	n.link.Close()
	_ = n.fd.Close()
}

// Do runs f on a thread inside the namespace. Sockets that f opens stay there.
func (n *NS) Do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked, see NewNS
		if err := netns.Set(n.fd); err != nil {
			done <- fmt.Errorf("enter namespace %s: %w", n.Name, err)
			return
		}
		done <- f()
	}()
	return <-done
}

// Start starts cmd inside the namespace.
func (n *NS) Start(cmd *exec.Cmd) error { return n.Do(cmd.Start) }

// Sysctl sets keys like "net/ipv4/ip_forward".
func (n *NS) Sysctl(values map[string]string) error {
	return n.Do(func() error {
		for key, value := range values {
			if err := os.WriteFile("/proc/sys/"+key, []byte(value), 0o644); err != nil && !os.IsNotExist(err) {
				return fmt.Errorf("namespace %s: sysctl %s: %w", n.Name, key, err)
			}
		}
		return nil
	})
}

// ReadSysctl returns the value of a key.
func (n *NS) ReadSysctl(key string) (string, error) {
	var out []byte
	err := n.Do(func() (err error) {
		out, err = os.ReadFile("/proc/sys/" + key)
		return err
	})
	return strings.TrimSpace(string(out)), err
}

// Dial connects from inside the namespace. The address must be literal.
func (n *NS) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = n.Do(func() error {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}
