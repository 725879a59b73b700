package plan

import (
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gridmesh/gridmesh/api/names"
	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// Kind is a kind of grid. The table below is all that is said of kinds: a new
// one is a row there, and its CRD in api/v1.
type Kind struct {
	Name     string // of the grid, as DeploymentGrid
	Short    string // what kubectl takes for it
	Resource string // of the grid, as deploymentgrids
	// Child is what it makes: its kind, and where the API server has it.
	Child         string
	ChildResource schema.GroupVersionResource
	// PerUnit: every unit gets a child of its own. Without, one child serves all.
	PerUnit bool

	// The Go types of the grid, and of the child's spec, which its templates are.
	grid, spec reflect.Type

	// Paths in the child's spec; nil where it has no such thing.
	replicas, pods, selector []string
	names                    []string // the Service that gives the pods their names
	// fixed are the fields of the child's spec that Kubernetes changes no more once
	// it is made, with what they are where nobody says.
	fixed map[string]any

	maxName int // characters of the grid's name, as far as the children bear it
	name    func(grid, unit string) string
	// badName says why a name will not do for this kind, or ""; nil for any.
	badName func(name string, replicas int64) string
	// badGrid says why a grid's own name will not do, in whatever unit, or ""; nil for any.
	badGrid func(name string) string
	// hashed: where the plain name is taken, or no name at all, one with a hash
	// does: nobody dials the child by its name.
	hashed bool
	// revision begins the names of its ControllerRevisions: two grids may share
	// a name.
	revision string
	// current reports whether a child that wants that many replicas, and has
	// seen its spec, has them all of its present template, ready ones given.
	current func(child Object, want int64, s apiv1.UnitState) bool
}

var (
	apps = schema.GroupVersion{Group: "apps", Version: "v1"}
	core = schema.GroupVersion{Version: "v1"}
)

var kinds = []*Kind{
	{
		Name: "DeploymentGrid", Short: "dg", Resource: "deploymentgrids",
		Child: "Deployment", ChildResource: apps.WithResource("deployments"), PerUnit: true,
		grid: reflect.TypeFor[apiv1.DeploymentGrid](), spec: reflect.TypeFor[appsv1.DeploymentSpec](),
		replicas: []string{"replicas"}, pods: []string{"template"}, selector: []string{"selector"},
		fixed:   map[string]any{"selector": nil},
		maxName: validation.LabelValueMaxLength, name: plainName, hashed: true, revision: "deployment", current: deploymentCurrent,
	},
	{
		Name: "StatefulSetGrid", Short: "ssg", Resource: "statefulsetgrids",
		Child: "StatefulSet", ChildResource: apps.WithResource("statefulsets"), PerUnit: true,
		grid: reflect.TypeFor[apiv1.StatefulSetGrid](), spec: reflect.TypeFor[appsv1.StatefulSetSpec](),
		replicas: []string{"replicas"}, pods: []string{"template"}, selector: []string{"selector"},
		names:   []string{"serviceName"},
		fixed:   map[string]any{"selector": nil, "serviceName": "", "podManagementPolicy": "OrderedReady", "volumeClaimTemplates": nil},
		maxName: validation.LabelValueMaxLength, name: plainName, badName: badSetName, badGrid: badSetGrid, revision: "stateful", current: setCurrent,
	},
	{
		Name: "ServiceGrid", Short: "sg", Resource: "servicegrids",
		Child: "Service", ChildResource: core.WithResource("services"),
		grid: reflect.TypeFor[apiv1.ServiceGrid](), spec: reflect.TypeFor[corev1.ServiceSpec](),
		maxName: validation.DNS1035LabelMaxLength - len(serviceSuffix), name: serviceName, badName: badServiceName,
	},
}

// Kinds are all kinds of grids.
func Kinds() []Kind {
	list := make([]Kind, len(kinds))
	for i, k := range kinds {
		list[i] = *k
	}
	return list
}

// FindKind finds a kind by its name, its short name or its resource, in any case.
func FindKind(word string) (Kind, bool) {
	for _, k := range kinds {
		if w := strings.ToLower(word); w == strings.ToLower(k.Name) || w == k.Short || w == k.Resource {
			return *k, true
		}
	}
	return Kind{}, false
}

// APIVersion is that of the children.
func (k *Kind) APIVersion() string { return k.ChildResource.GroupVersion().String() }

// nodeSelector is the path of the pods' node selector in the child's spec.
func (k *Kind) nodeSelector() []string {
	return slices.Concat(k.pods, []string{"spec", "nodeSelector"})
}

// podLabels is the path of the pods' labels in the child's spec.
func (k *Kind) podLabels() []string { return slices.Concat(k.pods, []string{"metadata", "labels"}) }

// kindOf is the kind of a grid by its name, or nil.
func kindOf(name string) *Kind {
	for _, k := range kinds {
		if k.Name == name {
			return k
		}
	}
	return nil
}

// kindOfChild is the kind of the grids that make such children, or nil.
func kindOfChild(child string) *Kind {
	for _, k := range kinds {
		if k.Child == child {
			return k
		}
	}
	return nil
}

// RevisionKind is the kind of the objects that hold the revisions of a grid.
const RevisionKind = "ControllerRevision"

// gridAPI is where the grids are.
var gridAPI = schema.GroupVersion{Group: apiv1.Group, Version: apiv1.Version}

// Watched is a kind of object that plans are made from.
type Watched struct {
	Resource schema.GroupVersionResource
	Kind     string
	Selector string // of labels; "" for all
}

// APIVersion is that of the objects.
func (w Watched) APIVersion() string { return w.Resource.GroupVersion().String() }

// Watches is what grids depend on: all grids and Nodes, and of the children
// and revisions those that belong to a grid.
func Watches() []Watched {
	list := []Watched{{Resource: core.WithResource("nodes"), Kind: kindNode}}
	for _, k := range kinds {
		list = append(list, Watched{Resource: gridAPI.WithResource(k.Resource), Kind: k.Name})
	}
	for _, k := range kinds {
		list = append(list, Watched{Resource: k.ChildResource, Kind: k.Child, Selector: names.GridSelector})
	}
	return append(list, Watched{Resource: apps.WithResource("controllerrevisions"), Kind: RevisionKind, Selector: names.GridSelector})
}

// World is all that the grids of one cluster depend on.
type World struct {
	Grids     []Object // DeploymentGrids, StatefulSetGrids, ServiceGrids
	Nodes     []Object
	Children  []Object // Deployments, StatefulSets and Services
	Revisions []Object // ControllerRevisions
	// Part: there may be others, of kinds that nobody gave.
	Part bool
}

// Add sorts in an object; what no grid depends on is left out.
func (w *World) Add(obj Object) {
	kind, version := value[string](obj, "kind"), value[string](obj, "apiVersion")
	if !slices.ContainsFunc(Watches(), func(o Watched) bool { return o.Kind == kind && o.APIVersion() == version }) {
		return
	}
	switch {
	case kind == kindNode:
		w.Nodes = append(w.Nodes, obj)
	case kind == RevisionKind:
		w.Revisions = append(w.Revisions, obj)
	case kindOf(kind) != nil:
		w.Grids = append(w.Grids, obj)
	default:
		w.Children = append(w.Children, obj)
	}
}

// deploymentCurrent is as "kubectl rollout status" has it.
func deploymentCurrent(_ Object, want int64, s apiv1.UnitState) bool {
	return s.UpdatedReplicas >= want && s.Replicas <= s.UpdatedReplicas && s.AvailableReplicas >= want
}

// setCurrent is as "kubectl rollout status" has it.
func setCurrent(child Object, want int64, s apiv1.UnitState) bool {
	if value[string](child, "spec", "updateStrategy", "type") == "OnDelete" {
		return true // pods follow when somebody deletes them
	}
	return s.UpdatedReplicas >= want-integer(child, 0, "spec", "updateStrategy", "rollingUpdate", "partition")
}
