package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/api/names"
)

// cluster is a model of an API server with its workload controllers: objects
// by name, changed at random and as plans say.
type cluster struct {
	r       *rand.Rand
	now     time.Time
	objects map[Ref]Object
	uid     int
	x       *Index // kept in line, object by object
	last    map[Ref]lastPlan
	steps   int                   // that happened
	absent  map[[2]string]absence // unit key and unit: since when no node has it
	waves   map[Ref]wave          // the last of each grid
	planned map[Ref]plannedAs
	mended  map[Ref]int              // the step at which it was looked at again
	noted   map[Ref]map[string]noted // by grid and child
	pilots  map[Ref]map[any]bool     // units of the order that were there, and are gone
	turns   map[Ref]turn
	made    map[Ref]Object // of which template a child was made
	halts   map[Ref]halt
	failing map[Ref]failing
}

type absence struct {
	at   time.Time
	step int
}

// wave is what is known of one, apart from the code under test.
type wave struct {
	units []string
	ready time.Time // zero while it is not
}

func newCluster(seed uint64) *cluster {
	return &cluster{
		r: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), objects: map[Ref]Object{}, x: NewIndex(),
		last: map[Ref]lastPlan{}, absent: map[[2]string]absence{}, waves: map[Ref]wave{}, planned: map[Ref]plannedAs{}, mended: map[Ref]int{}, noted: map[Ref]map[string]noted{}, pilots: map[Ref]map[any]bool{}, turns: map[Ref]turn{}, made: map[Ref]Object{}, halts: map[Ref]halt{}, failing: map[Ref]failing{},
	}
}

var (
	testKeys  = []string{"site", "topology.kubernetes.io/zone", "room"}
	testUnits = []string{"a", "b-c", "c", "Shop_17", "x.y", "north", ""}
	// mistypedKey is one that no node has.
	mistypedKey = "stie"
)

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

func (c *cluster) set(obj Object) {
	metadata := ensure(obj, "metadata")
	if metadata["uid"] == nil {
		c.uid++
		metadata["uid"] = fmt.Sprint("u", c.uid)
	}
	c.objects[RefOf(obj)] = obj
	c.x.Set(obj)
}

func (c *cluster) delete(ref Ref) {
	delete(c.objects, ref)
	c.x.Delete(ref)
}

func (c *cluster) refs(kinds ...string) []Ref {
	var list []Ref
	for ref := range c.objects {
		if slices.Contains(kinds, ref.Kind) {
			list = append(list, ref)
		}
	}
	slices.SortFunc(list, compareRefs)
	return list
}

// happen changes one thing at random.
func (c *cluster) happen() {
	r := c.r
	c.steps++
	c.now = c.now.Add(time.Duration(r.IntN(200)) * time.Second)
	switch r.IntN(10) {
	case 0, 1:
		c.setNode(fmt.Sprint("n", r.IntN(8)))
	case 2:
		if nodes := c.refs("Node"); len(nodes) > 0 {
			c.delete(pick(r, nodes))
		}
	case 3, 4:
		c.setGrid(pick(r, []string{"DeploymentGrid", "StatefulSetGrid", "ServiceGrid"}), pick(r, []string{"a", "a-b", "shop"}))
	case 5:
		c.endGrid()
	case 6: // an object that is nobody's child, or bears the labels
		c.setUnowned()
	case 7:
		if list := c.refs("Deployment", "StatefulSet", "Service"); len(list) > 0 {
			c.spoil(pick(r, list))
		}
	default:
		c.work()
	}
	c.look()
}

// look notes which units have no node.
func (c *cluster) look() {
	there := map[[2]string]bool{}
	for _, ref := range c.refs("Node") {
		for key, unit := range stringsOf(value[Object](c.objects[ref], "metadata", "labels")) {
			there[[2]string{key, unit}] = true
		}
	}
	for _, key := range testKeys {
		for _, unit := range testUnits {
			at := [2]string{key, unit}
			if _, noted := c.absent[at]; there[at] {
				delete(c.absent, at)
			} else if !noted {
				c.absent[at] = absence{c.now, c.steps}
			}
		}
	}
}

func (c *cluster) setNode(name string) {
	labels := Object{}
	for _, key := range testKeys {
		if unit := pick(c.r, testUnits); c.r.IntN(3) > 0 {
			labels[key] = unit
		}
	}
	ready, since := pick(c.r, []string{"True", "True", "True", "Unknown"}), c.now.Format(time.RFC3339)
	if old, ok := condition(c.objects[Ref{Kind: "Node", Name: name}], "Ready"); ok && old["status"] == ready {
		since = value[string](old, "lastTransitionTime")
	}
	c.set(Object{"apiVersion": "v1", "kind": "Node", "metadata": Object{"name": name, "labels": labels}, "status": Object{"conditions": []any{Object{"type": "Ready", "status": ready, "lastTransitionTime": since}}}})
}

func (c *cluster) workloadTemplate(name string) Object {
	t := Object{
		"selector": Object{"matchLabels": Object{"app": name}},
		"template": Object{"metadata": Object{"labels": Object{"app": name}}, "spec": Object{"nodeSelector": Object{"disk": "ssd"}, "containers": []any{Object{"name": "c", "image": fmt.Sprint("v", c.r.IntN(3))}}}},
	}
	if c.r.IntN(2) == 0 {
		t["replicas"] = int64(c.r.IntN(3))
	}
	return t
}

// order is that of a rollout: as its user knows the nodes, and now and then does not.
func (c *cluster) order(key any) []any {
	list := []any{"x.y", "c"}
	if len(c.objects)%5 == 0 {
		return list
	}
	return slices.DeleteFunc(list, func(unit any) bool {
		return !slices.ContainsFunc(c.refs("Node"), func(ref Ref) bool {
			return readNode(c.objects[ref]).labels[key.(string)] == unit
		})
	})
}

func (c *cluster) setGrid(kind, name string) {
	ref := Ref{kind, "default", name}
	spec := Object{"gridUniqKey": pick(c.r, testKeys)}
	metadata := Object{"name": name, "namespace": "default", "generation": int64(1)}
	obj := Object{"apiVersion": "superedge.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
	if old := c.objects[ref]; old != nil {
		metadata["uid"] = value[string](old, "metadata", "uid")
		if status, ok := old["status"]; ok {
			obj["status"] = status
		}
		metadata["generation"] = integer(old, 0, "metadata", "generation") + 1
		if c.r.IntN(3) > 0 {
			spec["gridUniqKey"] = value[string](old, "spec", "gridUniqKey")
		}
		if c.steps%10 == 0 {
			spec["gridUniqKey"] = mistypedKey
		}
	}
	if kind == "ServiceGrid" {
		spec["template"] = Object{"ports": []any{Object{"port": int64(80 + c.r.IntN(2))}}}
		c.set(obj)
		return
	}
	spec["template"] = c.workloadTemplate(name)
	if c.r.IntN(2) == 0 {
		spec["templatePool"] = Object{"canary": c.workloadTemplate(name)}
		spec["templates"] = Object{"a": "canary", "c": pick(c.r, []string{"canary", "default", "none"})}
		spec["autoDeleteUnusedTemplate"] = c.r.IntN(2) == 0
	}
	if c.r.IntN(3) > 0 {
		spec["rollout"] = Object{
			"order": c.order(spec["gridUniqKey"]), "maxUnits": pick(c.r, []any{int64(1), int64(2), "50%"}), "pauseSeconds": int64(c.r.IntN(2) * 60),
			"progressDeadlineSeconds": int64(600), "maxFailedUnits": int64(c.r.IntN(2)), "paused": c.r.IntN(4) == 0,
		}
	}
	c.set(obj)
}

// endGrid marks a grid as being deleted, or takes it away, with or without
// its children.
func (c *cluster) endGrid() {
	grids := c.refs("DeploymentGrid", "StatefulSetGrid", "ServiceGrid")
	if len(grids) == 0 {
		return
	}
	ref := pick(c.r, grids)
	how := c.r.IntN(3)
	if how == 0 {
		obj := clone(c.objects[ref])
		ensure(obj, "metadata")["deletionTimestamp"] = c.now.Format(time.RFC3339)
		c.set(obj)
		return
	}
	uid := value[string](c.objects[ref], "metadata", "uid")
	if how == 2 {
		defer c.delete(ref) // --cascade=orphan: what it owned lost its owner first
	} else {
		c.delete(ref)
	}
	for _, child := range c.refs("Deployment", "StatefulSet", "Service", "ControllerRevision") {
		switch obj := c.objects[child]; {
		case value[string](controllerOf(obj), "uid") != uid:
		case how == 1 && c.r.IntN(4) > 0:
			c.delete(child)
		case how == 2:
			orphan := clone(obj)
			delete(value[Object](orphan, "metadata"), "ownerReferences")
			c.set(orphan)
		}
	}
}

func (c *cluster) setUnowned() {
	kind := pick(c.r, []string{"Deployment", "StatefulSet", "Service"})
	grid, unit := pick(c.r, []string{"a", "a-b", "shop"}), pick(c.r, []string{"a", "c", "north", "b-c", "svc"})
	obj := Object{"apiVersion": "apps/v1", "kind": kind, "metadata": Object{"namespace": "default", "name": grid + "-" + unit}, "spec": Object{}}
	if c.objects[RefOf(obj)] != nil {
		return
	}
	if c.r.IntN(3) > 0 {
		obj["metadata"].(Object)["labels"] = Object{"superedge.io/grid-selector": grid, "superedge.io/grid-uniq-key": "site"}
	}
	c.set(obj)
}

// spoil changes or deletes a child by hand.
func (c *cluster) spoil(ref Ref) {
	obj := clone(c.objects[ref])
	switch c.r.IntN(4) {
	case 0:
		c.delete(ref)
		return
	case 1:
		ensure(obj, "spec")["replicas"] = int64(7)
		ensure(obj, "metadata")["managedFields"] = []any{Object{"manager": "hpa", "fieldsV1": Object{"f:spec": Object{"f:replicas": Object{}}}}}
	case 2:
		ensure(obj, "metadata", "labels")["superedge.io/grid-selector"] = "shop"
	default:
		ensure(obj, "spec", "template", "spec")["containers"] = []any{}
	}
	c.set(obj)
}

// work lets every workload controller make progress, or not.
func (c *cluster) work() {
	for _, ref := range c.refs("Deployment", "StatefulSet") {
		if c.r.IntN(2) == 0 {
			continue
		}
		obj := clone(c.objects[ref])
		n := integer(obj, 1, "spec", "replicas")
		obj["status"] = Object{"observedGeneration": integer(obj, 0, "metadata", "generation"), "replicas": n, "updatedReplicas": n, "readyReplicas": n, "availableReplicas": n}
		c.set(obj)
	}
}

// carryOut does what plans say, and writes their status.
func (c *cluster) carryOut(plans []Plan) {
	for _, p := range plans {
		c.writeStatus(p)
		if p.Revision != nil {
			c.revise(p.Revision.Object())
		}
		for _, name := range p.Expired {
			c.delete(Ref{"ControllerRevision", p.Grid.Namespace, name})
		}
		for _, s := range p.Steps {
			c.step(p, s)
		}
	}
}

// revise writes a revision; one that is there stays as old as it is.
func (c *cluster) revise(obj Object) {
	made := value[string](c.objects[RefOf(obj)], "metadata", "creationTimestamp")
	value[Object](obj, "metadata")["creationTimestamp"] = cmp.Or(made, c.now.Format(time.RFC3339))
	if c.early() {
		delete(value[Object](obj, "metadata", "annotations"), names.FirstRevision)
	}
	c.set(obj)
}

func (c *cluster) writeStatus(p Plan) {
	obj := clone(c.objects[p.Grid])
	var status any = p.Workload
	if p.Workload == nil {
		status = p.Service
	}
	if data, err := json.Marshal(status); err == nil && string(data) != "null" {
		var out Object
		if json.Unmarshal(data, &out) != nil {
			panic("status is no object")
		}
		obj["status"] = out
	}
	c.x.CommitStatus(p)
	c.set(obj)
}

func (c *cluster) step(p Plan, s Step) {
	ref := Ref{s.Kind, p.Grid.Namespace, s.Name}
	if s.Unmark {
		back := clone(c.objects[ref])
		delete(ensure(back, "metadata", "annotations"), "gridmesh.io/unit-gone-since")
		c.set(back)
	}
	switch obj := s.Object(c.now); {
	case obj != nil:
		if p.Workload != nil {
			c.noteMade(p, s, ref)
		}
		if c.early() {
			delete(value[Object](obj, "metadata", "annotations"), names.AppliedTemplate)
		}
		if old := c.objects[ref]; old != nil {
			metadata := value[Object](obj, "metadata")
			metadata["uid"], metadata["generation"] = value[string](old, "metadata", "uid"), integer(old, 0, "metadata", "generation")+1
			obj["status"] = old["status"]
			if gone := value[string](old, "metadata", "annotations", "gridmesh.io/unit-gone-since"); gone != "" {
				ensure(metadata, "annotations")["gridmesh.io/unit-gone-since"] = gone
			}
			if n, ok := value[Object](old, "spec")["replicas"]; ok && value[Object](obj, "spec")["replicas"] == nil {
				value[Object](obj, "spec")["replicas"] = n
				metadata["managedFields"] = value[Object](old, "metadata")["managedFields"]
			}
		}
		c.set(obj)
	case s.Action == Remove:
		c.delete(ref)
	case s.Action == Release:
		released := clone(c.objects[ref])
		delete(value[Object](released, "metadata"), "ownerReferences")
		c.set(released)
	case s.Unmarked:
		marked := clone(c.objects[ref])
		ensure(marked, "metadata", "annotations")["gridmesh.io/unit-gone-since"] = Time(c.now)
		c.set(marked)
	}
}

func (c *cluster) world() (w World) {
	for ref, obj := range c.objects {
		switch ref.Kind {
		case "Node":
			w.Nodes = append(w.Nodes, obj)
		case "ControllerRevision":
			w.Revisions = append(w.Revisions, obj)
		case "DeploymentGrid", "StatefulSetGrid", "ServiceGrid":
			w.Grids = append(w.Grids, obj)
		default:
			w.Children = append(w.Children, obj)
		}
	}
	return w
}

// size of a wave by the grid's spec, read apart from the code under test.
func waveSize(spec Object, units int) int {
	switch n := value[Object](spec, "rollout")["maxUnits"].(type) {
	case int64:
		return int(n)
	case string:
		return max(1, units/2)
	}
	return units
}
