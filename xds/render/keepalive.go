package render

import (
	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// tcpKeepalive asks the kernel to find out, at its own pace, when the peer of
// an idle connection is gone.
var tcpKeepalive = clusterFeature{
	apply: func(c *cluster.Cluster, _ ClusterSpec, _ Config) {
		c.UpstreamConnectionOptions = &cluster.UpstreamConnectionOptions{TcpKeepalive: &core.TcpKeepalive{}}
	},
}

// clientKeepalive asks for a sign of life of every client that is silent.
// Without it the connections of a pod that went without a word count against
// its address, and against whoever gets it next, until idleTimeout. Clients
// are on this node, so asking is cheap: one that is gone is let go after 90
// seconds, one whose address is another's by now, which answers with a reset,
// after 30.
func clientKeepalive() *core.TcpKeepalive {
	return &core.TcpKeepalive{KeepaliveTime: wrapperspb.UInt32(30), KeepaliveInterval: wrapperspb.UInt32(10), KeepaliveProbes: wrapperspb.UInt32(6)}
}
