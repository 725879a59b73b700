package render

import (
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// ejection is how long a dead endpoint is left alone. It must outlast the
// connect timeouts of a whole dead node, or the first comes back while the
// last is tried; with the interval it bounds the return of a living one
// (docs/adr/0002).
const ejection = 3500 * time.Millisecond

// failover ejects an endpoint at its first failed connect, so that the next
// attempt goes to another one, or to the next tier.
var failover = clusterFeature{
	apply: func(c *cluster.Cluster, _ ClusterSpec, _ Config) {
		c.CommonLbConfig = &cluster.Cluster_CommonLbConfig{
			// 0 would leave a Service with one endpoint dark for seconds after
			// one refused connection.
			HealthyPanicThreshold: &envoytype.Percent{Value: 1},
			// The default of 1 s hides all ejections but the first for that long.
			UpdateMergeWindow: durationpb.New(0),
		}
		c.OutlierDetection = &cluster.OutlierDetection{
			SplitExternalLocalOriginErrors:         true,
			ConsecutiveLocalOriginFailure:          wrapperspb.UInt32(1),
			EnforcingConsecutiveLocalOriginFailure: wrapperspb.UInt32(100),
			EnforcingLocalOriginSuccessRate:        wrapperspb.UInt32(0),
			MaxEjectionPercent:                     wrapperspb.UInt32(100),
			Interval:                               durationpb.New(time.Second),
			BaseEjectionTime:                       durationpb.New(ejection),
			MaxEjectionTime:                        durationpb.New(ejection),
		}
	},
}
