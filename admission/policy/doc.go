// Package policy has the shield, and what a vote may write, as admission policies that the
// API server evaluates itself: no server of ours, no certificate, nothing that can be away.
// MutatingAdmissionPolicy is there from Kubernetes 1.36 on; before it the webhook decides the same (package
// mutate, and there is what is decided and why). The manifests are in the folder manifests.
//
//	policy.go  the manifests, by what they are for
//
// # The shield
//
// [Shield] is a policy for nodes and one for pods/status, each with a binding whose parameter
// is the ConfigMap gridmesh-shield in the namespace gridmesh: the name of a shielded node, and
// until when (RFC 3339). Without the ConfigMap, or an entry in it, nothing changes. A policy is only looked
// at for writes of its resource; without the ConfigMap that ends there, and with it the API
// server converts object and parameter for CEL before it asks who writes. So whoever keeps the
// ConfigMap had better delete it while nobody is shielded.
//
// [SecondLine] is the same for EndpointSlices and Endpoints, and only for clusters where
// [Shield] cannot be: package mutate says what it costs.
//
// What fails in an evaluation leaves the write as it is (failurePolicy Ignore); an entry whose
// value is no time shields nobody of the same object.
//
// # Parameters that are ConfigMaps
//
// An API server with a policy whose parameter is a ConfigMap holds all ConfigMaps in memory.
// And one of Kubernetes 1.36 has one watch of them for all policies, which ends with the last
// of that type that was there when it began, whoever it belonged to, and never begins again:
// policies that are made later see the ConfigMaps of that moment, until the API server
// starts again. So do not delete these policies to make them anew, apply them; and after they were deleted, or
// others of that kind, start the API servers again. What is seen of such a shield ends by its times: no node
// stays shielded by it, and none is shielded anew. A parameter of a type of its own has
// neither fault, and the expressions are the same where it has data: map[string]string.
//
// # Votes
//
// [Votes] holds whoever has the service account gridmesh-health (namespace gridmesh) to this:
//
//   - It changes Nodes that are there, never nodes/status, and of them the annotations
//     superedgehealth/node-health ("true", "false" or none), superedgehealth/evidence (up to
//     4096 characters) and nodeunhealth ("yes" or none), and nothing else.
//   - Its token is bound to a node, as all are that a kubelet gets for a pod: the API server
//     then says which by authentication.kubernetes.io/node-name. Others are refused.
//   - The Node it writes is in the unit of that node.
//
// And no kubelet writes these annotations, on its own Node or another, nor registers with them.
//
// CEL cannot look up the voter's Node. So the units are a second parameter, the ConfigMap gridmesh-units in the
// same namespace: the name of each Node, and its unit, the value by which its votes
// count; one value for all where everybody votes on everybody. gridmesh-controller keeps it, whole at each
// write, before nodes are told to vote; a Node that is not in it neither votes nor is voted on. It
// holds some 15 000 nodes (1 MiB). While there is no such ConfigMap at all, units are not
// held: a missing parameter that denies would deny all writes of Nodes, everybody's.
//
// # What a stolen node still can do
//
// Who has a node's credentials can ask for a token of that node's gridmesh-health, and so write
// any verdict on the nodes of its unit, alone: a policy sees no majority. It taints nobody
// by that: who acts on verdicts has the evidence, a budget, and the word of the cloud beside.
//
// A kubelet may change most labels of its own Node (KEP-279), so where the unit's label is one
// of these, such a node can move to another unit, and votes there as soon as the controller
// has written it down. It still writes nothing but three annotations, needs the cloud itself
// to lose a node before anything of it is evicted, and is seen: its Node has changed its
// unit, and is gone from its own. Labels below node-restriction.kubernetes.io/ are not a
// kubelet's to change (NodeRestriction): a unit key from there closes this.
package policy
