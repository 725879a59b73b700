package ours

import (
	"time"

	"github.com/gridmesh/gridmesh/health/vote"
)

// What there is in the cloud, by the times of health and of Kubernetes.
const (
	leaseFor   = 15 * time.Second // that others wait
	leaseHeld  = 10 * time.Second // that its holder counts
	leaseEvery = 2 * time.Second  // it is renewed, or tried for
	patience   = 50 * time.Second // until a node is NotReady
	watchLag   = 500 * time.Millisecond
	// many is a unit in which only those are told of the cloud's word that may hold the
	// Lease: to tell each of 5000 nodes of 5000 takes minutes, and nobody else asks for it
	// while the unit is well.
	many = 1500
)

// cloud is the API server, as a unit sees it.
type cloud struct {
	u       *Unit
	holder  int           // of the Lease; -1: nobody
	agent   *vote.Machine // the holder's: one that begins anew waits until it is over, as others
	renewed time.Duration
	verdict []vote.Answer
	posted  []time.Duration // when a kubelet was heard last
	lost    []bool          // NotReady
}

func (c *cloud) begin(u *Unit) {
	n := u.w.Len()
	*c = cloud{u: u, holder: -1, verdict: make([]vote.Answer, n), posted: make([]time.Duration, n), lost: make([]bool, n)}
	c.lease()
	c.monitor()
}

// inform tells an agent what stands of each node, once it has an uplink.
func (u *Unit) inform(i int) {
	a := &u.nodes[i]
	if !a.up || u.w.Len() > many && !a.may {
		a.informed = false
		return
	}
	if a.informed {
		return
	}
	a.informed = true
	u.w.After(i, u.w.Between(0, watchLag), func() {
		for node := range u.nodes {
			u.cloud.mirror(i, node)
		}
	})
}

// mirror tells an agent what stands of one node.
func (c *cloud) mirror(i, node int) {
	if a := &c.u.nodes[i]; a.Machine != nil && a.up {
		c.u.step(i, vote.Cloud{Node: c.u.w.Name(node), Ready: !c.lost[node], Verdict: c.verdict[node]})
	}
}

// publish has all that watch learn what stands of a node.
func (c *cloud) publish(node int) {
	for i := range c.u.nodes {
		if a := &c.u.nodes[i]; a.Machine != nil && a.informed {
			c.u.w.After(i, c.u.w.Between(0, watchLag), func() { c.mirror(i, node) })
		}
	}
}

// monitor is the controller manager's.
func (c *cloud) monitor() {
	for i := range c.lost {
		if c.u.w.Posts(i) {
			c.posted[i] = c.u.w.Now()
		}
		if lost := c.u.w.Now()-c.posted[i] >= patience; lost != c.lost[i] {
			c.lost[i] = lost
			c.publish(i)
		}
	}
	c.u.w.Cloud(5*time.Second, c.monitor)
}

// lease has the Lease renewed by its holder, given back, and taken by another.
func (c *cloud) lease() {
	w := c.u.w
	if h := c.holder; h >= 0 && w.Writes(h) && c.u.nodes[h].Machine == c.agent {
		if c.u.nodes[h].may {
			c.give(h)
		} else {
			c.holder = -1
			c.u.step(h, vote.Lease{})
		}
	}
	if c.holder >= 0 && w.Now()-c.renewed >= leaseFor {
		c.holder = -1
	}
	if c.holder < 0 {
		first := w.Rand().IntN(len(c.u.nodes))
		for k := range c.u.nodes {
			if i := (first + k) % len(c.u.nodes); c.u.nodes[i].may && w.Writes(i) {
				w.Tracef("%s has the Lease", w.Name(i))
				c.give(i)
				break
			}
		}
	}
	w.Cloud(leaseEvery, c.lease)
}

func (c *cloud) give(i int) {
	c.holder, c.agent, c.renewed = i, c.u.nodes[i].Machine, c.u.w.Now()
	c.u.step(i, vote.Lease{Until: c.u.now(i).Add(leaseHeld)})
}

// write takes a verdict, where its writer reaches the cloud.
func (c *cloud) write(by int, w vote.Write) {
	if !c.u.w.Writes(by) {
		return
	}
	node := c.u.index[w.Node]
	c.u.w.Wrote()
	c.u.w.Tracef("%s writes of %s: well %s, by %+v", c.u.w.Name(by), w.Node, w.Verdict, w.Proof)
	c.verdict[node] = w.Verdict
	c.publish(node)
}
