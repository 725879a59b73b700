// Package render turns a view into Envoy resources: HOW, never WHO.
//
// It is pure. A traffic feature is a file and a line in an ordered list:
//
//   - of every cluster: clusterFeatures in clusters.go (connect_timeout.go,
//     circuit_breakers.go, failover.go, keepalive.go);
//   - of the capture listeners: captureFilters in capture_filters.go, then
//     tcp_proxy.go;
//   - of UDP: udp.go, a bound listener for each frontend that udp_choice.go
//     lets have one.
//
// clusters.go makes one cluster per frontend, from a template that does not
// depend on endpoints but for one thing (ClusterSpec.Near); endpoints.go
// renders tiers as priorities; preload.go chooses what Envoy holds without
// asking, preload_shares.go whose turn it is among namespaces, by clusters and
// their endpoints (pile.go: in O(log n)),
// and usage.go remembers what was used; catalog.go keeps it all as views go by, in O(changed).
//
// A resource's version is a hash of our own canonical fields, not of protobuf
// bytes, so that an agent built with other protobuf code re-sends nothing. The
// listeners and the cluster template are a contract with every Envoy in the
// field, pinned by testdata/templates.golden.
package render
