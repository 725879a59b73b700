package topology

import "net/netip"

// NodesOwn are addresses that mean something of its own on each node, and so are no Service's: its loopback; what is on
// the link, as the node's DNS (dnsplugin/nodelocal) and a cloud's metadata; and the DNS by IPv6. Other addresses on lo
// may be a Service's, as where NodeLocal DNSCache takes the cluster's DNS.
var NodesOwn = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"),
	netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("fd00:6772:6964::/64"),
}
