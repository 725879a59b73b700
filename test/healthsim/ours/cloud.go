package ours

import (
	"time"

	"github.com/gridmesh/gridmesh/health/vote"
)

// What there is in the cloud, by the times of Kubernetes.
const (
	patience = 50 * time.Second // until a node is NotReady
	watchLag = 500 * time.Millisecond
	// many is a unit in which only those are told of the cloud's word that may hold the
	// Lease: to tell each of 5000 nodes of 5000 takes minutes, and nobody else asks for it
	// while the unit is well.
	many = 1500
)

// cloud is the API server, as a unit sees it.
type cloud struct {
	u       *Unit
	lease   lease
	verdict []vote.Answer
	cut     []bool          // by the verdict's evidence
	by      []string        // who wrote it
	kept    [][]vote.Cloud  // what each node was told last of each: of a file, after a restart
	posted  []time.Duration // when a kubelet was heard last
	lost    []bool          // NotReady
}

func (c *cloud) begin(u *Unit) {
	n := u.w.Len()
	*c = cloud{u: u, lease: lease{holder: nobody}, verdict: make([]vote.Answer, n), cut: make([]bool, n), by: make([]string, n), kept: make([][]vote.Cloud, n), posted: make([]time.Duration, n), lost: make([]bool, n)}
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
	if a := &c.u.nodes[i]; a.Machine == nil || !a.up {
		return
	}
	word := vote.Cloud{Node: c.u.w.Name(node), Ready: !c.lost[node], Verdict: c.verdict[node], Cut: c.cut[node], By: c.by[node]}
	if c.u.w.Len() <= many {
		if c.kept[i] == nil {
			c.kept[i] = make([]vote.Cloud, c.u.w.Len())
		}
		c.kept[i][node] = word
	}
	c.u.step(i, word)
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

// write takes a verdict, where its writer reaches the cloud.
func (c *cloud) write(by int, w vote.Write) {
	if !c.u.w.Writes(by) {
		return
	}
	node := c.u.index[w.Node]
	same := c.verdict[node] == w.Verdict
	c.u.w.Wrote(same)
	c.u.w.Tracef("%s writes of %s: well %s, cut %t, by %+v", c.u.w.Name(by), w.Node, w.Verdict, w.Cut, w.Proof)
	if same && c.cut[node] == w.Cut && c.by[node] == c.u.w.Name(by) {
		return // new evidence alone
	}
	c.verdict[node], c.cut[node], c.by[node] = w.Verdict, w.Cut, c.u.w.Name(by)
	c.u.w.Stands(node, w.Verdict == vote.No)
	c.publish(node)
}
