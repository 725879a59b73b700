package topology

// Bound makes the bounds of what lies besides ClusterIPs small, for tests.
func (v *Viewer) Bound(service, namespace int) {
	v.claims.most.service, v.claims.most.namespace = service, namespace
}

// BoundRanges does so for the entries of ranges, of a namespace and of all.
func (v *Viewer) BoundRanges(namespace, all int) {
	v.claims.most.ranges, v.claims.most.allRanges = namespace, all
}

// RangeBounds are those.
func (v *Viewer) RangeBounds() (namespace, all int) {
	return v.claims.most.ranges, v.claims.most.allRanges
}

// BoundTargets bounds the endpoints of a Service's frontends.
func (v *Viewer) BoundTargets(most int) { v.targets.service = most }

// BoundUDPTargets bounds those of a UDP frontend that Envoy serves by keys.
func (v *Viewer) BoundUDPTargets(most int) { v.targets.udp = most }

// Bounds are those of one Service and of one namespace.
func (v *Viewer) Bounds() (service, namespace int) {
	return v.claims.most.service, v.claims.most.namespace
}

// CountLooks counts the endpoints that the rules are asked about.
func (v *Viewer) CountLooks(n *int) {
	v.rules = append([]*rule{{name: "counting", only: forTraffic, keep: func(*question, candidate) bool { *n++; return true }}}, v.rules...)
}
