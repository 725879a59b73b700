package source

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/convert"
	"github.com/gridmesh/gridmesh/topology"
)

// byName are the objects of one kind that count.
type byName[K, V comparable] map[K]placed[V]

// put has an object count from here on. One of the same name that counted so
// far is a mistake, unless an API server told it: then the object is what is to
// be put over that.
func (o byName[K, V]) put(key K, next placed[V], d *doubts) {
	if was, twice := o[key]; twice && (next.live || !was.live) {
		d.add(next.String(), "", fmt.Sprintf("is in %s as well; this one counts, for it is read last: remove one of them", was.place))
	}
	o[key] = next
}

// outdone leaves out objects that no API server would take, where there is another one of the name that it
// would, wherever it is: that one counts, also where it only lingers, as it was before.
func (d *Dir) outdone(leftOut *[]origin, told *[]topology.Problem) (before map[string]bool, is func(f file, o origin, of []topology.Problem) bool) {
	before = soundIn(d.left)
	if !slices.ContainsFunc(d.files, func(f file) bool { return len(f.content.refused) > 0 }) {
		return before, func(file, origin, []topology.Problem) bool { return false }
	}
	sound := soundIn(d.files)
	return before, func(f file, o origin, of []topology.Problem) bool {
		switch {
		case !f.content.refused[o]:
			return false
		case sound[o.key()]:
			*leftOut, *told = append(*leftOut, o), append(*told, at(o, of)...)
			return true
		case before[o.key()]:
			*told = append(*told, asBefore(at(o, of))...)
			return true
		}
		return false
	}
}

// at are Problems of an object, with where it is written.
func at(o origin, problems []topology.Problem) []topology.Problem {
	list := slices.Clone(problems)
	for i := range list {
		list[i].Object = o.String()
	}
	return list
}

// service is a Service, and what it was made of.
type service struct {
	placed[*topology.Service]
	written *corev1.Service
}

// asWritten are the Services that count, as they are written.
type asWritten map[topology.ObjectKey]*corev1.Service

// over is a Service as it is once it is put over what counted so far, and what was lost of what
// is written for values that are not in the result, in which nobody would miss them.
func (a asWritten) over(s service) (is placed[*topology.Service], lost []topology.Problem) {
	written := s.is.Problems
	if over := convert.PutOver(a[s.is.Key], s.written); over != s.written {
		s.written, s.is = over, convert.Service(over)
	}
	for _, p := range written {
		if p.Loss != topology.LostNothing && !slices.Contains(s.is.Problems, p) {
			p.Object = s.String()
			lost = append(lost, p)
		}
	}
	a[s.is.Key] = s.written
	return s.placed, lost
}

// node is a Node, and the ranges of its pods, which no snapshot has.
type node struct {
	placed[*topology.Node]
	pods []netip.Prefix
}

// podRanges are those of Nodes, by name.
type podRanges map[string][]netip.Prefix

// over takes those of a Node that is put over what counted so far: one that has none
// leaves what others chose.
func (r podRanges) over(n node) {
	if len(n.pods) > 0 {
		r[n.is.Name] = n.pods
	}
}

// liveNodes are the Nodes that an API server told.
type liveNodes map[string]*topology.Node

// over is a Node as it is once it is put over what an API server has.
func (l liveNodes) over(n placed[*topology.Node]) placed[*topology.Node] {
	if live := l[n.is.Name]; n.live {
		l[n.is.Name] = n.is
	} else if live != nil {
		n.is = convert.PutNodeOver(live, n.is)
	}
	return n
}

// lead leads a builder from what it was given to what it should hold. Objects
// are the same where their file did not change.
func (o byName[K, V]) lead(next byName[K, V], set func(V) bool, remove func(K) bool) {
	for k := range o {
		if _, still := next[k]; !still {
			remove(k)
		}
	}
	for k, v := range next {
		if o[k].is != v.is {
			set(v.is)
		}
	}
}

// orphans are slices of Services that are not there. An API server deletes such
// slices; here somebody mistyped a name, or left a file out. Of a Service that is
// left out itself it was said.
func (c *counted) orphans(leftOut []origin, d *doubts) {
	gone := map[string]bool{}
	for _, o := range leftOut {
		gone[o.name] = true
	}
	for key, s := range c.slices {
		service := topology.ObjectKey{Namespace: key.Namespace, Name: s.is.Service}
		if _, there := c.services[service]; !there && !s.live && !gone[objectName("Service", service.Namespace, service.Name)] {
			d.add(s.String(), "metadata.labels["+names.ServiceName+"]",
				fmt.Sprintf("names Service %s, which is not here: its endpoints serve nothing; correct the name, or add the Service", service))
		}
	}
}

// outside tells of addresses of Services that are in none of the ranges of their family, where
// there are any: an API server chooses them from these.
func (c *counted) outside(cidrs []netip.Prefix, d *doubts) {
	for _, s := range c.services {
		for _, ip := range s.is.ClusterIPs {
			of := func(p netip.Prefix) bool { return p.Addr().Is6() == ip.Is6() }
			if !s.live && slices.ContainsFunc(cidrs, of) && !slices.ContainsFunc(cidrs, func(p netip.Prefix) bool { return p.Contains(ip) }) {
				d.add(s.String(), "spec.clusterIPs", fmt.Sprintf("%s is in none of the ServiceCIDRs that are here: what does not serve it does not refuse it either; correct it, or add its range", ip))
			}
		}
	}
}

// beside tells of objects that are left out where another one of the name counts.
func (c *counted) beside(leftOut []origin, d *doubts) {
	if len(leftOut) == 0 {
		return
	}
	counts := map[string]origin{}
	places(c.services, counts)
	places(c.slices, counts)
	places(c.nodes, counts)
	tellBeside(leftOut, counts, d)
}

// places adds where the objects of one kind are.
func places[K, V comparable](o byName[K, V], to map[string]origin) {
	for _, p := range o {
		to[p.name] = p.origin
	}
}

// tellBeside is what is told where of two objects with one name only one is read: what an
// API server told is there to be put over.
func tellBeside(leftOut []origin, counts map[string]origin, d *doubts) {
	for _, o := range leftOut {
		if other, there := counts[o.name]; there && o.name != "" && (o.live || !other.live) {
			d.add(o.String(), "", fmt.Sprintf("is in %s as well; that one counts, for this one is left out: remove one of them", other.place))
		}
	}
}

// doubts are likely mistakes of a whole state, of which a wrong path may make
// thousands.
type doubts struct{ list []topology.Problem }

// mostDoubts bounds those that are listed.
const mostDoubts = 20

func (d *doubts) add(object, field, text string) {
	d.list = append(d.list, topology.Problem{Object: object, Field: field, Text: text})
}

// all are the first of them in an order of their own, and how many more.
func (d *doubts) all() []topology.Problem {
	slices.SortFunc(d.list, func(a, b topology.Problem) int { return strings.Compare(a.String(), b.String()) })
	if more := len(d.list) - mostDoubts; more > 0 {
		last := topology.Problem{Object: "manifests", Text: fmt.Sprintf("%d more objects are there twice, are slices without a Service, or have an address in no ServiceCIDR", more)}
		return append(d.list[:mostDoubts:mostDoubts], last)
	}
	return d.list
}
