// Package policy has the shield, and what a vote may write, as admission policies that the
// API server evaluates itself: no server of ours, no certificate, nothing that can be away.
// MutatingAdmissionPolicy is there from Kubernetes 1.36 on; before it the webhook decides the same (package
// mutate, and there is what is decided and why). The manifests are in the folder manifests; gridmesh-controller
// installs them and keeps them, where it keeps node health.
//
//	policy.go  the manifests, by what they are for
//
// # The shield
//
// [Shield] is a policy for nodes and one for pods/status, each with a binding whose parameter
// is the NodeTable gridmesh-shield in the namespace gridmesh: the name of a shielded node, and
// until when (RFC 3339). Without the table, or an entry in it, nothing changes. A policy is only looked
// at for writes of its resource; without the table that ends there in Kubernetes 1.36, while 1.37 asks for the
// table, each time. With it the API server converts object and table for CEL before it asks who writes.
//
// [SecondLine] is the same for EndpointSlices and Endpoints, and only for clusters where
// [Shield] cannot be: package mutate says what it costs.
//
// What fails in an evaluation leaves the write as it is (failurePolicy Ignore); an entry whose
// value is no time shields nobody of the same object.
//
// # Parameters that are of a kind of their own
//
// A NodeTable ([NodeTables]) is a ConfigMap's data and nothing else. ConfigMaps themselves would not do.
// An API server of Kubernetes 1.36 has one watch of a built-in kind for all policies. It ends with the last
// policy with such a parameter that was there when it began, whoever made it, and never begins again: policies that
// are made later see the ConfigMaps of that moment, until the API server starts again. It also holds all ConfigMaps of the
// cluster in memory, and who makes such a policy has to be allowed to read all of them. The watch of
// a custom kind begins anew with the next policy.
//
// A policy may be there before the CustomResourceDefinition, and that before a table. While the kind is not served the
// API server cannot evaluate the policy at all, by whomever a write is: failurePolicy Fail would refuse all writes of
// Nodes then. So each that has a parameter has Ignore, and a missing table allows. An API server learns of a new
// kind within 30 s, and evaluates from then on. So it may be with one that starts, which looks for the kind before
// it serves it, is ready, and looks again 30 s later (docs/limits.md): nothing in a policy makes it wait.
//
// # Votes
//
// [Votes] holds whoever has the service account gridmesh-health (namespace gridmesh) to this:
//
//   - It changes Nodes that are there, never nodes/status, and of them the annotations
//     superedgehealth/node-health ("true", "false" or none), superedgehealth/evidence (up to
//     4096 characters) and nodeunhealth ("yes" or none), and nothing else. A verdict comes with
//     what it rests on, written anew in the voter's own name (by=).
//   - Its token is bound to a node, as all are that a kubelet gets for a pod: the API server
//     then says which by authentication.kubernetes.io/node-name. Others are refused.
//   - The Node it writes is in the unit of that node.
//
// And no kubelet writes these annotations, on its own Node or another, nor registers with them.
//
// CEL cannot look up the voter's Node. So the units are a second parameter, the NodeTable gridmesh-units in the
// same namespace: the name of each Node, and its unit, the value by which its votes
// count. gridmesh-controller keeps it, whole at each write, and counts votes once it has written it; a Node that
// is not in it neither votes nor is voted on. It holds some 20,000 nodes (1.4 MB); units that find no
// room are not in it at all. While there is no such table, units are not
// held: a missing parameter that denies would deny all writes of Nodes, everybody's.
//
// [Votes] also holds that account to its Leases: the one of its own unit, by the table, under the name that
// health.LeaseName gives it, held by its own node. RBAC cannot: it names no object for create, so who may make
// one Lease of a namespace may make, and squat on, any.
//
// # What a stolen node still can do
//
// Who has a node's credentials can ask for a token of that node's gridmesh-health, and so write
// any verdict on the nodes of its unit, alone: a policy sees no majority. It writes that in its own
// name (by=), and who acts on verdicts takes them from who holds the unit's Lease alone, what that one
// wrote before stays in force, and a death is within a budget, and where the cloud has lost that node.
// A stolen node may take the Lease, too, which is seen: it leads then.
//
// A kubelet may change most labels of its own Node (KEP-279), so where the unit's label is one
// of these, such a node can move to another unit, and votes there as soon as the controller
// has written it down. It still writes nothing but three annotations, needs the cloud itself
// to lose a node before anything of it is evicted, and is seen: its Node has changed its
// unit, and is gone from its own. Labels below node-restriction.kubernetes.io/ are not a
// kubelet's to change (NodeRestriction): a unit key from there closes this.
package policy
