package topology

import "net/netip"

// serving are the endpoints of a port that still serve and that no keys keep
// from here: flows of UDP to them may go on, also where new ones go to others.
// Envoy knows its flows by itself.
func (i *inquiry) serving(port ServicePort, ipv6 bool, path Path) (list []netip.AddrPort) {
	if port.Protocol != UDP || path != PathKernel {
		return nil
	}
	for _, c := range gather(i.slices, port, ipv6) {
		if c.Serving && (i.view.Keys.Mode == NoKeys || !c.Ready || c.Terminating) {
			list = append(list, c.target())
		}
	}
	return list
}
