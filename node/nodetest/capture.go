package nodetest

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/topology"
)

// Conn is an open connection to a frontend, by way of Envoy to an endpoint.
type Conn struct{ Frontend, Endpoint netip.AddrPort }

// Capture is a twin of capture.Capture over a Kernel.
type Capture struct {
	kernel  *Kernel
	journal *Journal
	pods    []netip.Prefix
	ranges  []netip.Prefix // guarded besides those of views

	installed, found, synced bool
	outdated                 bool       // rules of a run before are in force as they were found
	earlier                  Rules      // of a run before, until a whole view
	want                     *plan.Plan // of the last view; nil before the first
	provisional, due         bool       // of the last Retract; Extend has something to do
	paths                    bool       // there is a kernel path
	front                    []topology.Frontend
	handed                   []topology.Frontend // by the next Extend, where that is known
	behind                   bool                // the kernel path does not have it
	absent                   *bool               // what EnvoyAbsent said last

	mu    sync.Mutex
	fails map[string]error // method -> error, once
	conns []Conn
	ips   capture.IPs // by which the node is known
}

// NewCapture makes a Capture of a kernel; nothing is written yet.
func NewCapture(k *Kernel, j *Journal) *Capture {
	return &Capture{kernel: k, journal: j, fails: map[string]error{}}
}

// WithKernelPath turns the kernel path on.
func (c *Capture) WithKernelPath() *Capture {
	c.paths = true
	return c
}

// Fail makes the next call of a method fail with err, before it does anything.
func (c *Capture) Fail(method string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fails[method] = err
}

// Open adds connections.
func (c *Capture) Open(list ...Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, list...)
}

// Conns returns the connections that are open.
func (c *Capture) Conns() []Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.conns)
}

func (c *Capture) call(method string) error {
	c.journal.add(method)
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.fails[method]
	delete(c.fails, method)
	return err
}

// Install implements node.Rules.
func (c *Capture) Install(guard []netip.Prefix) error {
	if err := c.call("Install"); err != nil {
		return err
	}
	c.earlier, c.found = c.kernel.InForce()
	c.installed, c.outdated = true, c.found && len(c.pods) == 0
	c.kernel.write(func(r *Rules) {
		if len(c.pods) > 0 || !c.found {
			r.Pods = c.pods
		}
		r.Guard = plan.Disjoint(slices.Concat(r.Guard, c.ranges, guard))
		if !c.paths {
			r.Kernel, r.Absent = nil, false
		}
		if c.absent != nil {
			r.Absent = *c.absent
		}
	})
	return nil
}

// EnvoyAbsent implements node.Rules.
func (c *Capture) EnvoyAbsent(absent bool) error {
	if c.absent = &absent; !c.paths {
		c.absent = nil
	}
	if err := c.call(fmt.Sprintf("EnvoyAbsent(%v)", absent)); err != nil {
		return err
	}
	if c.installed && c.paths {
		c.kernel.write(func(r *Rules) { r.Absent = absent })
	}
	return nil
}

// follow has the kernel path follow a view.
func (c *Capture) follow(v *topology.View, provisional bool) error {
	if !c.paths {
		return nil
	}
	c.front = nil
	for _, s := range v.Sorted() {
		for _, f := range plan.KernelOf(s) {
			c.front = append(c.front, f.Frontend)
		}
	}
	c.behind = true
	if err := c.call("kernel"); err != nil {
		return err
	}
	if !c.kernel.hasPath() {
		return errNotInstalled
	}
	c.behind = false
	c.kernel.write(func(r *Rules) {
		list := c.front
		if provisional {
			list = slices.Concat(r.Kernel, list)
		}
		r.Kernel = slices.SortedFunc(slices.Values(list), topology.Frontend.Compare)
		r.Kernel = slices.Compact(r.Kernel)
	})
	return nil
}

// Remove implements node.Rules.
func (c *Capture) Remove() error {
	err := c.call("Remove")
	if err == nil {
		c.installed, c.synced = false, false
		c.kernel.Flush()
	}
	return err
}

// Retract implements node.Rules.
func (c *Capture) Retract(v *topology.View, provisional bool) error {
	if !c.installed {
		return errNotInstalled
	}
	synced := c.synced
	c.want, c.provisional, c.due, c.synced = plan.Of(v, plan.Config{PodCIDRs: c.pods, ServiceCIDRs: c.ranges}), provisional, true, false
	if c.handed = nil; !provisional {
		c.handed = slices.Clone(c.want.Serve)
	}
	if err := c.call("Retract"); err != nil {
		return err
	}
	if err := c.follow(v, provisional); err != nil {
		c.provisional = true // what it was to take over stays with Envoy
		return err
	}
	if !provisional {
		c.earlier = Rules{}
	}
	if _, there := c.kernel.InForce(); !there {
		return errNotInstalled // somebody removed it
	}
	if !provisional && synced {
		c.kernel.write(func(r *Rules) {
			c.handed = slices.DeleteFunc(slices.Clone(c.want.Serve), func(f topology.Frontend) bool { return slices.Contains(r.Serve, f) })
			r.Guard = c.want.Guard
			r.Serve = slices.DeleteFunc(r.Serve, func(f topology.Frontend) bool { return !slices.Contains(c.want.Serve, f) })
		})
	}
	return nil
}

var errNotInstalled = errors.New("there are no rules to change")

// Handed implements node.Rules.
func (c *Capture) Handed() []topology.Frontend { return c.handed }

// Extend implements node.Rules.
func (c *Capture) Extend() error {
	if err := c.call("Extend"); err != nil {
		return err
	}
	if _, there := c.kernel.InForce(); !there {
		return errNotInstalled
	}
	if c.due {
		c.write()
	}
	return nil
}

func (c *Capture) write() {
	c.kernel.write(func(r *Rules) {
		if !c.provisional {
			r.Guard, r.Serve = c.want.Guard, slices.Clone(c.want.Serve)
			return
		}
		r.add(c.want.Guard, c.want.Serve)
	})
	c.due, c.synced = false, !c.provisional
}

// Repair implements node.Upkeep.
func (c *Capture) Repair() (bool, error) {
	if err := c.call("Repair"); err != nil {
		return false, err
	}
	_, there := c.kernel.InForce()
	if there && !c.outdated && !c.behind && (!c.paths || c.kernel.hasPath()) {
		return false, nil
	}
	c.outdated, c.behind = false, false
	c.kernel.write(func(r *Rules) {
		c.kernel.pathless = false
		r.add(c.earlier.Guard, c.earlier.Serve)
		r.Pods, r.Kernel = c.pods, slices.SortedFunc(slices.Values(c.front), topology.Frontend.Compare)
		if c.absent != nil {
			r.Absent = *c.absent
		}
	})
	if c.want != nil && !c.due {
		c.write()
	}
	return true, nil
}

// Due implements node.Upkeep.
func (c *Capture) Due() bool { return c.outdated || c.due || c.behind }

// Earlier implements node.Capture.
func (c *Capture) Earlier() (capture.Earlier, error) {
	r, there := c.kernel.InForce()
	return capture.Earlier{Rules: there, Pods: r.Pods, Guard: r.Guard}, nil
}

// RefreshBridges implements node.Upkeep.
func (c *Capture) RefreshBridges() (bool, error) { return false, c.call("RefreshBridges") }

// Tune implements node.Upkeep.
func (c *Capture) Tune() error { return c.call("Tune") }

// Found implements node.Capture.
func (c *Capture) Found() bool { return c.found }

// IPv6 implements node.Capture.
func (c *Capture) IPv6() bool { return true }

// Pods implements node.Capture.
func (c *Capture) Pods() string {
	if len(c.pods) == 0 {
		return "unknown"
	}
	return "routed"
}

// CloseStale implements node.Capture.
func (c *Capture) CloseStale(access func(frontend, endpoint netip.AddrPort) topology.Access) (int, error) {
	if err := c.call("CloseStale"); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := len(c.conns)
	c.conns = slices.DeleteFunc(c.conns, func(o Conn) bool { return access(o.Frontend, o.Endpoint) == topology.AccessDenied })
	return before - len(c.conns), nil
}
