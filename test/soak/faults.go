package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
	"github.com/gridmesh/gridmesh/test/soak/model"
	"github.com/gridmesh/gridmesh/test/soak/script"
)

// effects are what is excused while a program does not run.
var effects = map[string]model.Effect{"agent": model.Deaf | model.Absent, "envoy": model.Deaf | model.Broken, "dns": model.Nameless}

func process(n *cluster.Node, program string) *edge.Process {
	return map[string]*edge.Process{"agent": n.Agent, "envoy": n.Envoy, "dns": n.DNS}[program]
}

// start starts a program that has ended.
func (s *Soak) start(n *cluster.Node, program string) error {
	s.over(process(n, program))
	var err error
	switch program {
	case "agent":
		s.recalls(n)
		s.unvouched(n)
		err = n.StartAgent()
	case "envoy":
		err = n.StartEnvoy()
	case "dns":
		err = n.StartDNS(netlab.CloudIP.String())
	}
	if err != nil {
		return err
	}
	return s.inTime(n.Name, process(n, program))
}

// hit does something to a program of a node, and undoes it.
func (s *Soak) hit(program, node string, do, undo func(n *cluster.Node) error) (func() error, error) {
	target := program + " " + node
	if !s.take(target) {
		return nil, errBusy
	}
	ends := s.trouble(effects[program], node)
	n := s.c.Nodes[node]
	if err := do(n); err != nil {
		return nil, err
	}
	return func() error {
		defer s.free(target)
		defer ends()
		return undo(n)
	}, nil
}

func (s *Soak) kill(_ context.Context, args []string) (func() error, error) {
	return s.hit(args[0], args[1],
		func(n *cluster.Node) error { s.killed[n.Name]++; process(n, args[0]).Kill(); return nil },
		func(n *cluster.Node) error { return s.start(n, args[0]) })
}

// restart stops a program as an update does, and starts it at once. What it
// excuses ends later.
func (s *Soak) restart(_ context.Context, args []string) (func() error, error) {
	return s.hit(args[0], args[1],
		func(n *cluster.Node) error { process(n, args[0]).Signal(syscall.SIGTERM); return s.start(n, args[0]) },
		func(*cluster.Node) error { return nil })
}

func (s *Soak) stop(_ context.Context, args []string) (func() error, error) {
	return s.hit(args[0], args[1],
		func(n *cluster.Node) error { process(n, args[0]).Signal(syscall.SIGSTOP); return nil },
		func(n *cluster.Node) error { return s.resume(n.Name, process(n, args[0])) })
}

// freeze stops all of a node's programs at once: for them every clock then jumps.
func (s *Soak) freeze(_ context.Context, args []string) (func() error, error) {
	node := args[0]
	targets := []string{"agent " + node, "envoy " + node, "dns " + node}
	if !s.take(targets...) {
		return nil, errBusy
	}
	ends := s.trouble(model.Deaf|model.Absent|model.Broken|model.Nameless, node)
	n := s.c.Nodes[node]
	list := []*edge.Process{n.Agent, n.Envoy, n.DNS}
	for _, p := range append(list, n.Kubelet) {
		p.Signal(syscall.SIGSTOP)
	}
	return func() error {
		defer s.free(targets...)
		defer ends()
		n.Kubelet.Signal(syscall.SIGCONT)
		return s.resume(node, list...)
	}, nil
}

func (s *Soak) hitController(_ context.Context, args []string) (func() error, error) {
	if !s.take("controller") {
		return nil, errBusy
	}
	s.controller.Signal(map[string]syscall.Signal{"kill": syscall.SIGKILL, "stop": syscall.SIGSTOP, "restart": syscall.SIGTERM}[args[0]])
	return func() error {
		defer s.free("controller")
		if args[0] == "stop" {
			return s.resume(script.Controller, s.controller)
		}
		return s.startController()
	}, nil
}

// cloud stands for the API server among troubles.
const cloud = "the API server"

func (s *Soak) hitAPIServer(ctx context.Context, _ []string) (func() error, error) {
	if !s.take(cloud) {
		return nil, errBusy
	}
	ends := s.trouble(model.Deaf, append(s.world.Nodes(), cloud)...)
	began := time.Now()
	s.c.StopAPIServer()
	return func() error {
		defer s.free(cloud)
		defer ends()
		ctx, cancel := context.WithTimeout(ctx, wait.Patience)
		defer cancel()
		err := s.c.StartAPIServer(ctx)
		for _, u := range s.world.Units {
			s.heals(u.Name)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.history.Missed(began, time.Now().Add(longLag)) // who watches asks again later, for the newest
		return err
	}, nil
}

// killPod kills the steady app on a node; the kubelet starts it again. Where
// it has a neighbour, and Envoy alone serves, only what is under way may fail.
func (s *Soak) killPod(_ context.Context, args []string) (func() error, error) {
	node := args[0]
	if !s.take("pod " + node) {
		return nil, errBusy
	}
	unit := s.unit(s.world.UnitOf(node))
	ends := s.trouble(model.Broken, unit...)
	if err := edge.KillPod(s.pods[node].uid); err != nil {
		return nil, err
	}
	if len(unit) > 1 && s.world.UnitOf(node) == onePath {
		ends()
		ends = func() {}
	}
	return func() error {
		defer s.free("pod " + node)
		defer ends()
		return nil
	}, nil
}

func (s *Soak) cutUplink(_ context.Context, args []string) (func() error, error) {
	target := "uplink " + args[0]
	if !s.take(target) {
		return nil, errBusy
	}
	ends := s.trouble(model.Deaf, s.unit(args[0])...)
	u := s.c.Lab.Unit(args[0])
	if err := u.CutUplink(); err != nil {
		return nil, err
	}
	return func() error {
		defer s.free(target)
		defer ends()
		defer s.heals(args[0])
		return u.HealUplink()
	}, nil
}

// cutNode parts a node from everything. Its neighbours go on; only what is
// under way may fail there, and what their kernels send to its pod.
func (s *Soak) cutNode(_ context.Context, args []string) (func() error, error) {
	node := args[0]
	if !s.take("node " + node) {
		return nil, errBusy
	}
	under := s.trouble(model.Broken, s.unit(s.world.UnitOf(node))...)
	ends := s.trouble(model.Deaf|model.Broken|model.Nameless, node)
	err := s.c.Lab.Node(node).Cut()
	if s.world.UnitOf(node) == onePath {
		under()
		under = func() {}
	}
	if err != nil {
		return nil, err
	}
	return func() error {
		defer s.free("node " + node)
		defer under()
		defer ends()
		return s.c.Lab.Node(node).Heal()
	}, nil
}

// stripTries is how often what was listed is listed again, for the agent wrote meanwhile.
const stripTries = 20

// vanished reports whether what is to be removed was gone before.
func vanished(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH)
}

// strip takes something of the kernel's away from a node, which its agent must
// put back.
func (s *Soak) strip(node string, f func(ns *netlab.NS) error) (func() error, error) {
	if !s.take("kernel " + node) {
		return nil, errBusy
	}
	ends := s.trouble(model.Deaf|model.Broken|model.Bare|model.Nameless, node)
	err := f(s.c.Nodes[node].NS)
	for range stripTries {
		if !vanished(err) {
			break
		}
		err = f(s.c.Nodes[node].NS)
	}
	if err != nil {
		return nil, err
	}
	return func() error {
		defer s.free("kernel " + node)
		defer ends()
		return nil
	}, nil
}

func (s *Soak) flush(_ context.Context, args []string) (func() error, error) {
	return s.strip(args[0], flushRules)
}

func flushRules(ns *netlab.NS) error {
	conn, err := ns.NFT()
	if err != nil {
		return err
	}
	conn.FlushRuleset()
	return conn.Flush()
}

// unchain empties the chains and leaves everything else.
func (s *Soak) unchain(_ context.Context, args []string) (func() error, error) {
	return s.strip(args[0], func(ns *netlab.NS) error {
		conn, err := ns.NFT()
		if err != nil {
			return err
		}
		chains, err := conn.ListChains()
		if err != nil {
			return err
		}
		for _, c := range chains {
			conn.FlushChain(c)
		}
		return conn.Flush()
	})
}

var families = []int{unix.AF_INET, unix.AF_INET6}

// unrule removes the rules that lead to tables of others than the kernel's.
func (s *Soak) unrule(_ context.Context, args []string) (func() error, error) {
	return s.strip(args[0], func(ns *netlab.NS) error {
		return ns.Do(func() error {
			for _, family := range families {
				rules, err := netlink.RuleList(family)
				if err != nil {
					return err
				}
				for i := range rules {
					if r := &rules[i]; r.Mark != 0 {
						r.Family = family
						if err := netlink.RuleDel(r); err != nil {
							return fmt.Errorf("remove rule %s: %w", r, err)
						}
					}
				}
			}
			return nil
		})
	})
}

// unroute removes the routes of such tables.
func (s *Soak) unroute(_ context.Context, args []string) (func() error, error) {
	return s.strip(args[0], func(ns *netlab.NS) error {
		return ns.Do(func() error {
			for _, family := range families {
				routes, err := allRoutes(family)
				if err != nil {
					return err
				}
				for i := range routes {
					if r := &routes[i]; !slices.Contains([]int{unix.RT_TABLE_MAIN, unix.RT_TABLE_LOCAL, unix.RT_TABLE_DEFAULT}, r.Table) {
						if err := netlink.RouteDel(r); err != nil {
							return fmt.Errorf("remove route %s: %w", r, err)
						}
					}
				}
			}
			return nil
		})
	})
}

func allRoutes(family int) ([]netlink.Route, error) {
	return netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
}

// fill leaves no room on the disk of a node's state.
func (s *Soak) fill(_ context.Context, args []string) (func() error, error) {
	if !s.take("disk " + args[0]) {
		return nil, errBusy
	}
	path := filepath.Join(stateDir(args[0]), "filler")
	err := os.WriteFile(path, make([]byte, 64<<20), 0o600)
	if !errors.Is(err, syscall.ENOSPC) {
		return nil, fmt.Errorf("the disk of %s does not get full: %w", args[0], err)
	}
	return func() error {
		defer s.free("disk " + args[0])
		return os.Remove(path)
	}, nil
}
