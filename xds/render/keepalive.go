package render

import (
	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// tcpKeepalive asks the kernel to find out, at its own pace, when the peer of
// an idle connection is gone.
var tcpKeepalive = clusterFeature{
	apply: func(c *cluster.Cluster, _ ClusterSpec, _ Config) {
		c.UpstreamConnectionOptions = &cluster.UpstreamConnectionOptions{TcpKeepalive: &core.TcpKeepalive{}}
	},
}
