package gossip

import (
	"io"
	"log"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/gridmesh/gridmesh/test/healthsim/sim"
)

// Unit is a unit of members.
type Unit struct {
	live  *sim.Live
	w     *sim.World
	index map[string]int

	all     sync.WaitGroup
	members []*member // by node; the simulator's
}

// member is an agent.
type member struct {
	u       *Unit
	node    int
	life    uint32
	packets chan *memberlist.Packet
	streams chan net.Conn
	ended   chan struct{}
}

// New makes a unit in which no agent runs yet.
func New(l *sim.Live, w *sim.World) *Unit {
	u := &Unit{live: l, w: w, index: map[string]int{}, members: make([]*member, w.Len())}
	for i := range w.Len() {
		u.index[w.Name(i)] = i
	}
	return u
}

// mostQueued is how many packets a socket holds.
const mostQueued = 1024

// Start implements sim.Protocol.
func (u *Unit) Start(i int) {
	m := &member{
		u: u, node: i, life: u.w.Life(i), packets: make(chan *memberlist.Packet, mostQueued),
		streams: make(chan net.Conn, mostQueued), ended: make(chan struct{}),
	}
	u.members[i] = m
	u.all.Go(m.run)
}

// Uplink implements sim.Protocol: it does not matter.
func (u *Unit) Uplink(int, bool) {}

// End implements sim.Ender.
func (u *Unit) End(i int) {
	if m := u.members[i]; m != nil {
		u.members[i] = nil
		close(m.ended)
	}
}

// Close ends all agents, and waits for them.
func (u *Unit) Close() {
	u.live.Do(func(*sim.World) {
		for i := range u.members {
			u.End(i)
		}
	})
	u.all.Wait()
}

// run is an agent's life: it joins the others, and tries until it is in.
func (m *member) run() {
	cfg := memberlist.DefaultLANConfig()
	cfg.Name, cfg.Transport, cfg.Events = m.u.w.Name(m.node), &transport{m}, m
	cfg.Logger = log.New(io.Discard, "", 0)
	list, err := memberlist.Create(cfg)
	if err != nil {
		panic(err) // of a configuration that is always the same
	}
	defer func() { _ = list.Shutdown() }()
	for in := false; !in; {
		n, err := list.Join(m.seeds())
		if in = n > 0 && err == nil || n > 1; in {
			break
		}
		select {
		case <-time.After(2 * time.Second):
		case <-m.ended:
			return
		}
	}
	<-m.ended
}

// seeds are three others by which an agent joins.
func (m *member) seeds() (list []string) {
	m.u.live.Do(func(w *sim.World) {
		for _, i := range w.Rand().Perm(w.Len()) {
			if i != m.node && len(list) < 3 {
				list = append(list, address(i))
			}
		}
	})
	return list
}

// say tells the simulator what an agent holds another for.
func (m *member) say(name string, dead bool) {
	m.u.live.Do(func(w *sim.World) {
		if about := m.u.index[name]; about != m.node && w.Runs(m.node, m.life) {
			w.Verdict(m.node, about, dead)
		}
	})
}

// NotifyJoin implements memberlist.EventDelegate.
func (m *member) NotifyJoin(n *memberlist.Node) { m.say(n.Name, false) }

// NotifyLeave implements memberlist.EventDelegate.
func (m *member) NotifyLeave(n *memberlist.Node) { m.say(n.Name, true) }

// NotifyUpdate implements memberlist.EventDelegate.
func (m *member) NotifyUpdate(*memberlist.Node) {}

const port = 7946

func ip(i int) net.IP { return net.IPv4(10, byte(i>>16), byte(i>>8), byte(i)) }

func address(i int) string { return net.JoinHostPort(ip(i).String(), strconv.Itoa(port)) }

// nodeAt is the node at an address; -1 if there is none.
func nodeAt(addr string) int {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return -1
	}
	a := net.ParseIP(host).To4()
	if a == nil {
		return -1
	}
	return int(a[1])<<16 | int(a[2])<<8 | int(a[3])
}
