// Package v1 holds the grids of superedge.io/v1: one object that runs an
// application, or serves it, in every unit. Manifests of SuperEdge apply
// unchanged.
//
// Templates are kept as they were written, so that fields this version does
// not know reach the children.
//
// +kubebuilder:object:generate=true
// +groupName=superedge.io
package v1
