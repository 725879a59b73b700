package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// plant is something that must not be, put there on purpose. Its judge must
// say so; a judge that cannot fail has judged nothing.
type plant struct {
	judge string
	what  string
	// sow puts it there, asks the judge, and takes it away.
	sow func(s *Soak, ctx context.Context) error
}

// planted is the node that things are planted on, and other one of another unit.
const planted, other = "a-1", "b-1"

var plants = []plant{
	{"answers", "an answer by another unit", func(s *Soak, _ context.Context) error {
		return s.judgeThese([]dial{s.fake(s.pods[other].name, nil)}, nil)
	}},
	{"answers", "an answer by an unowned pod", func(s *Soak, _ context.Context) error {
		return s.judgeThese([]dial{s.fake("nobody", nil)}, nil)
	}},
	{"failures", "a connection that failed", func(s *Soak, _ context.Context) error {
		return s.judgeThese([]dial{s.fake("", syscall.ECONNREFUSED)}, nil)
	}},
	{"names", "a name that does not resolve", func(s *Soak, _ context.Context) error {
		d := s.fake("", errors.New("NXDOMAIN"))
		d.name = true
		return s.judgeThese([]dial{d}, nil)
	}},
	{"borders", "a packet to a Service that nothing stops", (*Soak).leakService},
	{"borders", "a first packet to a foreign pod", (*Soak).leakForeign},
	{"convergence", "an agent that follows nothing", (*Soak).deafen},
	{"convergence", "a unit of another version, and a grid that nobody works for", (*Soak).idle},
	{"objects", "an edit that nobody made", (*Soak).plantObject},
	{"crashes", "a program that panics", (*Soak).plantCrash},
	{"files", "a temporary file that nobody was killed over", (*Soak).plantTemporary},
	{"rules", "a table of nobody's", (*Soak).plantTable},
	{"routes", "a rule of nobody's", (*Soak).plantRule},
	{"files", "a file of nobody's", (*Soak).plantFile},
	{"listeners", "a socket of nobody's", (*Soak).plantListener},
	{"envoy", "a Service that a fresh start had not", (*Soak).plantService},
	{"leaks", "connections that are never closed", (*Soak).plantConnections},
	{"leaks", "connections to the controller that are never closed", (*Soak).plantOnController},
	{"leaks", "watches of grids' children that are never closed", (*Soak).plantWatchesOfGrids},
	{"watches", "watches that are never closed", (*Soak).plantWatches},
	{"affinity", "an answer by another pod than a moment before", (*Soak).plantForgotten},
}

// Plants shows that every judge can fail. The cluster is as after Fresh.
func (s *Soak) Plants(ctx context.Context) error {
	for _, name := range []string{"s0", "s1", "s2", "s3", "s4", "s5"} { // an open one would allow what is planted
		if err := s.deleteService(ctx, []string{name}); err != nil {
			return err
		}
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	time.Sleep(grace) // what was allowed until now may be used until then
	if err := s.judge(); err != nil {
		return err
	}
	for _, p := range plants {
		start := time.Now()
		err := p.sow(s, ctx)
		var v *Violation
		if !errors.As(err, &v) || v.Judge != p.judge {
			return &Violation{Judge: "judge of " + p.judge, Text: fmt.Sprintf("it does not see %s: %v", p.what, err)}
		}
		s.say("planted %s: %s sees it after %s", p.what, p.judge, time.Since(start).Round(time.Millisecond))
	}
	return nil
}

// fake is a dial of the steady app that never was, of a moment ago.
func (s *Soak) fake(answered string, err error) dial {
	now := time.Now()
	return dial{node: planted, from: "node " + planted, to: s.steady, began: now, ended: now, answered: answered, err: err}
}

// leakService takes the guard away until every prober of the node has sent
// once. Its agent is stopped, or it would put it back in less.
func (s *Soak) leakService(ctx context.Context) error {
	agent := s.c.Nodes[planted].Agent
	agent.Signal(syscall.SIGSTOP)
	s.probes.start(ctx, s.say)
	err := flushRules(s.c.Nodes[planted].NS)
	if err == nil {
		err = s.probes.again(ctx, planted)
	}
	s.probes.stop() // what leaks later would be taken for what is planted next
	agent.Signal(syscall.SIGCONT)
	if err != nil {
		return err
	}
	return s.judge()
}

// leakForeign dials a foreign pod itself. A machine that is slow enough ends a
// dial before its first packet: it is dialled until that is seen.
func (s *Soak) leakForeign(ctx context.Context) error {
	var found error
	_, err := wait.For(ctx, "a foreign pod to be dialled", func() error {
		_, _ = edge.Ask(s.pods[planted].ns, "tcp", netip.AddrPortFrom(s.pods[other].ip, appPort), 2*time.Second)
		if found = s.judge(); found == nil {
			return errors.New("nothing is seen")
		}
		return nil
	})
	return cmp.Or(found, err)
}

// deafen stops an agent and changes something.
func (s *Soak) deafen(ctx context.Context) error {
	agent := s.c.Nodes[planted].Agent
	agent.Signal(syscall.SIGSTOP)
	defer agent.Signal(syscall.SIGCONT)
	if err := s.setService(ctx, []string{"s0", "unit", "Cluster"}); err != nil {
		return err
	}
	defer func() { _ = s.deleteService(ctx, []string{"s0"}) }()
	return becomes(ctx, "convergence", func() error { return s.upToDate(ctx, planted) })
}

// becomes waits until f fails, and makes a violation of that.
func becomes(ctx context.Context, judge string, f func() error) error {
	var found error
	_, err := wait.For(ctx, "the judge of "+judge, func() error {
		if found = f(); found == nil {
			return errors.New("it sees nothing")
		}
		return nil
	})
	if err != nil {
		return err
	}
	return &Violation{Judge: judge, Text: found.Error()}
}

// unlikeNow plants something and compares a node's state before and after.
func (s *Soak) unlikeNow(ctx context.Context, judge string, sow func() error) error {
	n := s.c.Nodes[planted]
	e := &ended{}
	// The plants before this one may still be going.
	if _, err := wait.For(ctx, "a node that does not change", func() (err error) {
		if e.usage, err = usage(n); err != nil {
			return err
		}
		if e.reading, err = read(n); err != nil {
			return err
		}
		time.Sleep(time.Second)
		wrong, err := s.unlike(ctx, map[string]*ended{planted: e})
		if err == nil {
			err = violations(wrong)
		}
		return err
	}); err != nil {
		return err
	}
	if err := sow(); err != nil {
		return err
	}
	may, err := s.leftovers(ctx)
	if err != nil {
		return err
	}
	_, err = wait.For(ctx, judge+" to differ", func() error {
		// What there is now against what there was: the other way round.
		used, err := usage(n)
		if err != nil {
			return err
		}
		now, err := read(n)
		if err != nil {
			return err
		}
		for _, d := range differences(now, e.reading, may) {
			if strings.HasPrefix(d, judge+":") {
				return nil
			}
		}
		if judge == "leaks" && len(grown(e.usage, used)) > 0 {
			return nil
		}
		return errors.New("nothing differs")
	})
	if err != nil {
		return err
	}
	return &Violation{Judge: judge, Text: "seen"}
}

func (s *Soak) plantTable(ctx context.Context) error {
	conn, err := s.c.Nodes[planted].NS.NFT()
	if err != nil {
		return err
	}
	t := &nftables.Table{Name: "planted", Family: nftables.TableFamilyINet}
	defer func() { conn.DelTable(t); _ = conn.Flush() }()
	return s.unlikeNow(ctx, "rules", func() error { conn.AddTable(t); return conn.Flush() })
}

func (s *Soak) plantRule(ctx context.Context) error {
	r := netlink.NewRule()
	r.Family, r.Priority, r.Table = families[0], 30000, 4242
	ns := s.c.Nodes[planted].NS
	defer func() { _ = ns.Do(func() error { return netlink.RuleDel(r) }) }()
	return s.unlikeNow(ctx, "routes", func() error { return ns.Do(func() error { return netlink.RuleAdd(r) }) })
}

func (s *Soak) plantFile(ctx context.Context) error {
	path := filepath.Join(stateDir(planted), "planted")
	defer os.Remove(path)
	return s.unlikeNow(ctx, "files", func() error { return os.WriteFile(path, nil, 0o600) })
}

func (s *Soak) plantListener(ctx context.Context) error {
	var l net.Listener
	defer func() {
		if l != nil {
			_ = l.Close()
		}
	}()
	return s.unlikeNow(ctx, "listeners", func() error {
		return s.c.Nodes[planted].NS.Do(func() (err error) {
			l, err = net.Listen("tcp4", "127.0.0.1:9")
			return err
		})
	})
}

func (s *Soak) plantService(ctx context.Context) error {
	if err := s.deleteSlice(ctx, []string{"x7"}); err != nil { // it may be another Service's by now
		return err
	}
	defer func() {
		_ = s.deleteService(ctx, []string{"s1"})
		_ = s.deleteSlice(ctx, []string{"x7"})
	}()
	return s.unlikeNow(ctx, "envoy", func() error {
		return errors.Join(s.setService(ctx, []string{"s1", "unit", "Cluster"}), s.setSlice(ctx, []string{"x7", planted}))
	})
}

// plantConnections holds connections to the agent, which serves each by
// goroutines of its own.
func (s *Soak) plantConnections(ctx context.Context) error {
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	return s.unlikeNow(ctx, "leaks", func() error {
		for range 2 * spare {
			c, err := net.Dial("unix", s.c.Nodes[planted].Dir+"/feed.sock")
			if err != nil {
				return err
			}
			conns = append(conns, c)
		}
		return nil
	})
}

func (s *Soak) plantWatches(ctx context.Context) error {
	now, err := s.watches(ctx, watched)
	if err != nil {
		return err
	}
	s.watching = min(s.watching, now) // fresh programs have few
	for range 4 * spareWatches {
		w, err := s.c.Kube.CoreV1().Services("default").Watch(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		defer w.Stop()
	}
	return s.compareWatches(ctx, 10*time.Second)
}
