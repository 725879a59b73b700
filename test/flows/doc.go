// Package flows holds one table of flows against several engines: who dials
// what, and who answers as whom, on a node with a real kube-proxy and on nodes
// with gridmesh, with real packets. What is expected follows from what Kubernetes
// documents (expect_test.go) and knows no engine; where one differs,
// differences_test.go says so, with its reason. flows.txt is the table.
package flows
