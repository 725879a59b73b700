// Package routing leads packets that bear the capture's mark to this node: one
// route table with "local default dev lo", and a rule of routing for each IP
// version. Where sources are validated by their marks (source_rules.go) there
// are a few more.
package routing
