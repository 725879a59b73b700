package names

// Of node health, SuperEdge's.
const (
	// NodeHealth is the annotation of a Node with the vote's verdict: "true" or "false".
	NodeHealth = "superedgehealth/node-health"
	// NodeUnhealthy is the annotation that public SuperEdge writes instead: "yes" on a
	// node that was voted dead, absent on all others.
	NodeUnhealthy = "nodeunhealth"
	// HealthZone is the label of a Node whose value names the nodes that vote on each other.
	HealthZone = "superedgehealth/topology-zone"
	// HealthZoneConfig is the ConfigMap that says whether HealthZone counts (its key
	// TaintZoneAdmission), HealthConfig the one that took its place, and HMACConfig the one
	// with the key of the unit's messages (its key hmackey).
	HealthZoneConfig = "edge-health-zone-config"
	HealthConfig     = "edge-health-config"
	HMACConfig       = "hmac-config"

	// TaintZoneAdmission is the key of HealthZoneConfig: "false" makes all nodes one unit.
	TaintZoneAdmission = "TaintZoneAdmission"
	// UnitInternalCheck is the key of HealthConfig that does the same, and CheckUnits that
	// with the NodeUnits that vote, each in itself, as a list with commas.
	UnitInternalCheck = "unit-internal-check"
	CheckUnits        = "check-units"
	// HMACKey is the key of HMACConfig with the key, and HMACKeyNext that with the second
	// one, which is accepted besides while keys are changed; that one is gridmesh's own.
	HMACKey     = "hmackey"
	HMACKeyNext = "hmackey-next"
	// HealthConfigLabel is the label, and HealthConfigLabelValue its value, without which
	// SuperEdge from v0.8 on sees neither HealthConfig nor HMACConfig.
	HealthConfigLabel      = "name"
	HealthConfigLabelValue = "edge-health"
	// NodeUnitMember is the value of the label, named as a NodeUnit, that its nodes have.
	NodeUnitMember = "nodeunits.superedge.io"
	// MasterLabel and ControlPlaneLabel are on nodes of the control plane, which do not vote
	// where SuperEdge's ConfigMaps say who does; SuperEdge knew the first alone.
	MasterLabel       = "node-role.kubernetes.io/master"
	ControlPlaneLabel = "node-role.kubernetes.io/control-plane"
)

// Of node health, gridmesh's own.
const (
	// Evidence is the annotation of a Node with what a verdict rests on.
	Evidence = "superedgehealth/evidence"
	// NodeTableKind is an object that has a text for each of many nodes: what admission
	// policies have for parameters. NodeTables are these as a resource, of NodeTableGroup and
	// NodeTableVersion.
	NodeTableKind    = "NodeTable"
	NodeTables       = "nodetables"
	NodeTableGroup   = "gridmesh.io"
	NodeTableVersion = "v1"
	// Shield is the NodeTable of the nodes whose pods and endpoints stay though the
	// cloud calls the nodes lost: name -> until when (RFC 3339).
	Shield = "gridmesh-shield"
	// UnitLease is the label of a unit's Lease: the unit.
	UnitLease = "gridmesh.io/unit-lease"
	// StatusVersion and StatusKind are of what a daemon says of its unit over its status
	// socket, which is read as a manifest.
	StatusVersion = "health.gridmesh.io/v1alpha1"
	StatusKind    = "NodeStatus"
	// UnseenTaint is the key of the taint (NoSchedule) of a node that the cloud hears, and
	// more than half of its unit do not see.
	UnseenTaint = "gridmesh.io/unseen-by-unit"
	// Units is the NodeTable of units: name of a node -> unit. Who votes is held to it.
	Units = "gridmesh-units"
)
