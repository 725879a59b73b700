// Package names holds every label, annotation and well-known value that
// gridmesh reads or writes, in one place and for every dialect it speaks.
package names

// Kubernetes' own.
const (
	// ServiceName is the label that ties an EndpointSlice to its Service.
	ServiceName = "kubernetes.io/service-name"
	// ServiceProxyName marks Services and slices that another proxy serves.
	ServiceProxyName = "service.kubernetes.io/service-proxy-name"
	// Headless marks the slices of headless Services.
	Headless = "service.kubernetes.io/headless"
	// Zone is the label of a node's zone.
	Zone = "topology.kubernetes.io/zone"
	// DefaultNamespace and KubernetesService name the API server's own Service.
	DefaultNamespace  = "default"
	KubernetesService = "kubernetes"
	// SystemNamespace and DNSService name the cluster DNS Service.
	SystemNamespace = "kube-system"
	DNSService      = "kube-dns"
)

// Domain begins the names of what is gridmesh's own, SuperEdgeDomain those that
// it shares with SuperEdge.
const (
	Domain          = "gridmesh.io"
	SuperEdgeDomain = "superedge.io"
)

// SuperEdge's, which gridmesh reads and writes unchanged.
const (
	// TopologyKeys is the annotation of a Service: a JSON array of node label
	// keys, in order; "*" last stands for any node.
	TopologyKeys = "topologyKeys"
	// GridUniqKey is the label that names the unit key of a grid's children.
	GridUniqKey = "superedge.io/grid-uniq-key"
	// GridSelector is the label of a grid's children: the grid's name.
	GridSelector = "superedge.io/grid-selector"
	// Federated and Distributed mark grids of SuperEdge's federation.
	Federated   = "superedge.io/fed"
	Distributed = "superedge.io/dis"
)

// Datapath is the annotation of a Service that says which path its connections
// take on every node: auto, envoy or kernel.
const Datapath = "gridmesh.io/datapath"

// gridmesh's own, on the children of grids.
const (
	// UnitKey is the annotation with the unit key as it is; the label
	// GridUniqKey cannot hold every one.
	UnitKey = "gridmesh.io/unit-key"
	// Unit is the annotation with the unit's name.
	Unit = "gridmesh.io/unit"
	// Applied is the annotation with the hash of what was applied last.
	Applied = "gridmesh.io/applied"
	// AppliedAt is the annotation with the time (RFC 3339) of that; a child that was
	// made before the turn of its unit has none.
	AppliedAt = "gridmesh.io/applied-at"
	// AppliedTemplate is the annotation with the hash of the template that was applied
	// last.
	AppliedTemplate = "gridmesh.io/applied-template"
	// Settled is the annotation of a child in which something differs though it
	// was applied: a hash of what was applied and of what differs.
	Settled = "gridmesh.io/settled"
	// Replicas is the annotation with the template's replicas, as applied last.
	Replicas = "gridmesh.io/replicas"
	// FirstRevision is the annotation of a ControllerRevision with the number that it had
	// before anybody went back to it.
	FirstRevision = "gridmesh.io/first-revision"
	// UnitGone is the annotation with the time (RFC 3339) since when a child's
	// unit has had no node.
	UnitGone = "gridmesh.io/unit-gone-since"
)
