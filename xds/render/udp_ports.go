package render

// nodePorts are the UDP ports that programs of a node, and the kernel itself,
// take on every address of it. The kernel lets nobody have such a port while a
// single address of the node has it, and a ClusterIP with a listener is one: a
// Service there would keep a tunnel, or the node's own address, from coming up.
var nodePorts = map[uint16]string{
	67: "DHCP", 68: "DHCP", 546: "DHCPv6", 547: "DHCPv6",
	123: "NTP", 323: "chrony", 319: "PTP", 320: "PTP",
	500: "IPsec", 4500: "IPsec", 1701: "L2TP",
	3784: "BFD", 3785: "BFD", 4784: "BFD",
	4789: "VXLAN", 4790: "VXLAN", 8472: "VXLAN", 6081: "Geneve", 6635: "MPLS", 6783: "Weave Net", 6784: "Weave Net",
	51820: "WireGuard", 51821: "WireGuard", 51871: "WireGuard", 41641: "Tailscale",
	5353: "mDNS", 5355: "LLMNR",
}
