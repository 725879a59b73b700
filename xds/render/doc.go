// Package render turns a view into Envoy resources: HOW, never WHO.
//
// It is pure. One file per traffic feature: listeners.go (the constant TCP
// capture listeners), udp.go (one bound listener per UDP frontend),
// clusters.go (one cluster per frontend, from a template that does not depend
// on endpoints), endpoints.go (tiers as priorities), preload.go (what Envoy
// holds without being asked).
//
// A resource's version is a hash of our own canonical fields, not of protobuf
// bytes, so that an agent built with other protobuf code re-sends nothing.
package render
