// Package kubernetes tests the promises against a real control plane: real
// API server, scheduler and controllers, real Envoy, real packets, and nodes
// behind links that are cut.
package kubernetes
