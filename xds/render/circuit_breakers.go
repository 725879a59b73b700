package render

import (
	"math"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// circuitBreakers are off: Envoy's defaults (1024) would refuse connections
// that the kernel takes.
var circuitBreakers = clusterFeature{
	apply: func(c *cluster.Cluster, _ ClusterSpec, _ Config) {
		all := wrapperspb.UInt32(math.MaxUint32)
		c.CircuitBreakers = &cluster.CircuitBreakers{Thresholds: []*cluster.CircuitBreakers_Thresholds{{
			MaxConnections: all, MaxPendingRequests: all, MaxRequests: all, MaxRetries: all,
		}}}
	},
}
