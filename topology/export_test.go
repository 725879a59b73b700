package topology

// Bound makes the bounds of what lies besides ClusterIPs small, for tests.
func (v *Viewer) Bound(service, namespace int) {
	v.claims.most.service, v.claims.most.namespace = service, namespace
}

// BoundNamed has fewer of who claims one thing be told whose it is.
func (v *Viewer) BoundNamed(most int) {
	v.claims.clusterIPs.named, v.claims.doors.named, v.claims.at.named = most, most, most
}

// BoundRanges does so for the entries of ranges.
func (v *Viewer) BoundRanges(most int) { v.claims.most.ranges = most }

// OfList are the entries of a list besides its ranges.
const OfList = ofList

// RangeBound is that.
func (v *Viewer) RangeBound() int { return v.claims.most.ranges }

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
