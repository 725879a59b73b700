package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/api/names"
	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

const (
	// Manager is the field manager that children are applied under.
	Manager = "gridmesh-controller"
	// SuperEdgeManager is the field manager of SuperEdge's controller: the name
	// of its binary.
	SuperEdgeManager = "application-grid-controller"
)

// child is a Deployment, StatefulSet or Service, read.
type child struct {
	ref                 Ref
	kind                *Kind // of the grids that make such children
	obj                 Object
	uid, version        string
	labels, annotations map[string]string
	ownerKind           string // of its controller, "" for none
	ownerName, ownerUID string
	alike               packed   // what other units have alike of its spec (Kind.pruneChild)
	given               []packed // all of its labels, in parts
	sight                        // of its unit
}

// sight is what was seen of a child's unit in this process: what the child
// itself says may be older, or forged.
type sight struct {
	there bool      // the unit was there, with this child
	came  time.Time // when it came, where this child was made after that; zero else
	left  time.Time // when it was first seen that it is not; zero while it is
	// When it was first seen that the child, as it was applied last, does not say
	// when that was, or names a time to come.
	undated time.Time
	applied sighting // of when it was applied last
	lit     sighting // of when a node of its unit was ready
}

// saw has a child take over what was seen of it when it was another version.
func (c *child) saw(old *child) {
	c.sight = old.sight
	for _, key := range []string{names.Applied, names.AppliedAt} {
		if c.annotations[key] != old.annotations[key] { // applied anew
			c.undated = time.Time{}
		}
	}
}

// lookAnew forgets since when units were seen gone: nobody looked of late, and they
// may have been back.
func lookAnew(byUnit map[string][]*child) {
	for _, list := range byUnit {
		for _, c := range list {
			c.left = time.Time{}
		}
	}
}

// readChild reads a child, pruned or not.
func readChild(obj Object) *child {
	held := packedOf(obj)
	if held == nil {
		obj = maps.Clone(obj) // what is read is never written to
		if metadata := value[Object](obj, "metadata"); metadata != nil {
			obj["metadata"] = maps.Clone(metadata)
		}
		Prune(obj)
		held = packedOf(obj)
	}
	c := &child{alike: held[0], given: held[1:], ref: RefOf(obj), obj: obj, uid: value[string](obj, "metadata", "uid"), version: value[string](obj, "metadata", "resourceVersion")}
	c.kind = kindOfChild(c.ref.Kind)
	c.labels = stringsOf(value[Object](obj, "metadata", "labels"))
	c.annotations = stringsOf(value[Object](obj, "metadata", "annotations"))
	owner := controllerOf(obj)
	c.ownerKind, c.ownerName, c.ownerUID = value[string](owner, "kind"), value[string](owner, "name"), value[string](owner, "uid")
	return c
}

func compareChildren(a, b *child) int { return strings.Compare(a.ref.Name, b.ref.Name) }

// gridOf is the grid that a child, if any, belongs to: its controller, or,
// where it has none, the one that its labels name.
func gridOf(c *child) (Ref, bool) {
	switch {
	case c == nil:
	case c.ownerKind == c.kind.Name:
		return Ref{c.kind.Name, c.ref.Namespace, c.ownerName}, true
	case c.ownerKind == "" && c.labels[names.GridSelector] != "" && c.labels[names.GridUniqKey] != "":
		return Ref{c.kind.Name, c.ref.Namespace, c.labels[names.GridSelector]}, true
	}
	return Ref{}, false
}

// spec is what remains of a child's spec (Kind.reads), whole all of it.
func (c *child) spec() Object { return value[Object](c.obj, "spec") }

func (c *child) whole() Object {
	spec := c.alike.open()
	for _, path := range c.kind.reads() {
		if v := value[any](c.spec(), path...); v != nil {
			last := len(path) - 1
			ensure(spec, path[:last]...)[path[last]] = v
		}
	}
	return spec
}

// allLabels are those of a child, of which labels has those alone that plans read most.
func (c *child) allLabels() map[string]string {
	all := map[string]string{}
	for _, part := range c.given {
		maps.Copy(all, stringsOf(part.open()))
	}
	return all
}

// size is that of the text of all that was packed.
func (c *child) size() int {
	size := c.alike.size()
	for _, part := range c.given {
		size += part.size()
	}
	return size
}

// selected is the value that a child's pods ask of a label of their node.
func (c *child) selected(key string) string {
	return value[string](value[Object](c.spec(), c.kind.nodeSelector()...), key)
}

// replicas is how many a child has, or a default.
func (c *child) replicas(otherwise int64) int64 {
	return integer(c.spec(), otherwise, c.kind.replicas...)
}

// unit is the unit of a grid's child: as annotated, or, for SuperEdge's, by its
// name. Its node selector may be another unit's (superedge#301), and is believed
// only where the name says nothing.
func (c *child) unit(grid, unitKey string) string {
	if unit, ok := c.annotations[names.Unit]; ok {
		return unit
	}
	if unit, ok := strings.CutPrefix(c.ref.Name, plainName(grid, "")); ok {
		return unit
	}
	return c.selected(unitKey)
}

// keys are the unit keys that a child was made by.
func (c *child) keys() (keys []string) {
	if c.kind.PerUnit {
		return []string{cmp.Or(c.annotations[names.UnitKey], c.labels[names.GridUniqKey])} // SuperEdge's have the label alone
	}
	if json.Unmarshal([]byte(c.annotations[names.TopologyKeys]), &keys) != nil {
		return nil
	}
	return keys
}

func (c *child) goneSince() (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, c.annotations[names.UnitGone])
	return at, err == nil
}

// appliedAt is when a child was applied last, or, for another controller's, made;
// zero where it does not say.
func (c *child) appliedAt() time.Time {
	text := c.annotations[names.AppliedAt]
	if c.annotations[names.Applied] == "" {
		text = cmp.Or(text, value[string](c.obj, "metadata", "creationTimestamp"))
	}
	at, _ := time.Parse(time.RFC3339, text)
	return at
}

// state is what SuperEdge's users read of a workload's status.
func (c *child) state() apiv1.UnitState {
	n := func(field string) int64 { return integer(c.obj, 0, "status", field) }
	s := apiv1.UnitState{
		ObservedGeneration: n("observedGeneration"), Replicas: n("replicas"), ReadyReplicas: n("readyReplicas"),
		UpdatedReplicas: n("updatedReplicas"), AvailableReplicas: n("availableReplicas"),
	}
	if available, ok := condition(c.obj, "Available"); ok {
		s.Conditions = []apiv1.UnitCondition{{Type: "Available", Status: metav1.ConditionStatus(value[string](available, "status"))}}
	}
	return s
}

// progress reports whether a workload has all replicas ready, and whether all
// of them are of its current template.
func (c *child) progress() (ready, complete bool) {
	s, want := c.state(), c.replicas(1)
	ready = s.ReadyReplicas >= want
	seen := s.ObservedGeneration >= integer(c.obj, 0, "metadata", "generation")
	return ready, seen && ready && c.kind.current(c.obj, want, s)
}

// lag says how far a workload is, and, where its controller gives a reason, why it
// comes no further. What its pods wait for they alone say.
func (c *child) lag() string {
	s := c.state()
	text := fmt.Sprintf("of %d replicas %d are ready, %d are current", c.replicas(1), s.ReadyReplicas, s.UpdatedReplicas)
	if fresh, old := c.mixed(); fresh > 0 {
		text += fmt.Sprintf("; %s ready, %s", count(fresh, "new pod is not", "new pods are not"), count(old, "old one still serves", "old ones still serve"))
	}
	for _, stuck := range [][2]string{{"ReplicaFailure", "True"}, {"Progressing", "False"}} {
		if is, ok := condition(c.obj, stuck[0]); ok && is["status"] == stuck[1] {
			return text + "; " + value[string](is, "reason") + ": " + Cut(value[string](is, "message"))
		}
	}
	return text
}

// mixed are how many new pods of a workload are not ready, where old ones serve
// instead, and how many of those: its controller ends none of them before a new one is
// ready. Zeroes where that is not so, or not seen yet.
func (c *child) mixed() (fresh, old int64) {
	s := c.state()
	if s.ObservedGeneration < integer(c.obj, 0, "metadata", "generation") {
		return 0, 0
	}
	fresh, old = min(s.UpdatedReplicas, s.Replicas-s.ReadyReplicas), min(s.Replicas-s.UpdatedReplicas, s.ReadyReplicas)
	if fresh <= 0 || old <= 0 {
		return 0, 0
	}
	return fresh, old
}

func count(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// scaledByOthers reports whether another manager owns spec.replicas of a live
// child: an autoscaler, or somebody with kubectl scale.
func (c *child) scaledByOthers() bool {
	return slices.ContainsFunc(c.scalers(), func(m string) bool { return m != Manager && m != SuperEdgeManager })
}

// scalers are the field managers of spec.replicas.
func (c *child) scalers() (list []string) {
	for _, e := range value[[]any](c.obj, "metadata", "managedFields") {
		if entry, scales := scaler(e); scales {
			list = append(list, value[string](entry, "manager"))
		}
	}
	return list
}

// owns reports whether a child is this grid's own: an earlier grid of the same
// name may have had another UID.
func (g *grid) owns(c *child) bool {
	return c.ownerKind == "" || g.uid == "" || c.ownerUID == g.uid
}

// made reports whether a child is this grid's own, and does not only bear its labels.
func (g *grid) made(c *child) bool { return c.ownerKind != "" && g.owns(c) }

// claim is how good the claim of a child to its unit is, the best first: what the grid
// applied, what it owns, what one of its name applied and left (--cascade=orphan), what only
// bears the labels; and what is an earlier grid's.
func (g *grid) claim(c *child) int {
	applied := c.annotations[names.Applied] != ""
	switch {
	case !g.owns(c):
		return 4
	case g.made(c) && applied:
		return 0
	case g.made(c):
		return 1
	case applied:
		return 2
	}
	return 3
}
