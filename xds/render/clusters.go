package render

import (
	"math"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/gridmesh/gridmesh/topology"
)

// clusterTemplate is part of every cluster's version: raising it re-sends all
// of them, and their endpoints after them.
const clusterTemplate = "eds-1"

// farConnectTimeout is the least that a Service without keys gets: its
// endpoints may lie behind a slow link, and one lost SYN is no death.
const farConnectTimeout = time.Second

// ejection is how long a dead endpoint is left alone. It must outlast the
// connect timeouts of a whole dead node, or the first comes back while the
// last is tried; with the interval it bounds the return of a living one.
const ejection = 3500 * time.Millisecond

// ClusterName names the cluster of a frontend. For TCP it must be what Envoy
// makes of the address that the client dialled.
func ClusterName(f topology.Frontend) string {
	if f.Protocol == topology.TCP {
		return f.AddrPort().String()
	}
	return f.String()
}

// Cluster renders the cluster of a frontend. It does not depend on endpoints:
// every change of a cluster makes Envoy warm it again.
func Cluster(name string, keyed bool, cfg Config) Resource {
	timeout := cfg.ConnectTimeout
	if !keyed {
		timeout = max(timeout, farConnectTimeout)
	}
	f := new(fingerprint).add(clusterTemplate, name, timeout.String())
	return Resource{
		Type: ClusterType, Name: name, Version: f.version(),
		Message: func() proto.Message { return edsCluster(name, timeout) },
	}
}

func edsCluster(name string, timeout time.Duration) *cluster.Cluster {
	source := ads()
	source.InitialFetchTimeout = durationpb.New(time.Second)
	all := wrapperspb.UInt32(math.MaxUint32)
	return &cluster.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS},
		EdsClusterConfig:     &cluster.Cluster_EdsClusterConfig{EdsConfig: source},
		ConnectTimeout:       durationpb.New(timeout),
		LbPolicy:             cluster.Cluster_ROUND_ROBIN,
		// Envoy's defaults (1024) would refuse connections that the kernel takes.
		CircuitBreakers: &cluster.CircuitBreakers{Thresholds: []*cluster.CircuitBreakers_Thresholds{{
			MaxConnections: all, MaxPendingRequests: all, MaxRequests: all, MaxRetries: all,
		}}},
		CommonLbConfig: &cluster.Cluster_CommonLbConfig{
			// 0 would leave a Service with one endpoint dark for seconds after
			// one refused connection.
			HealthyPanicThreshold: &envoytype.Percent{Value: 1},
			// The default of 1 s hides all ejections but the first for that long.
			UpdateMergeWindow: durationpb.New(0),
		},
		OutlierDetection: &cluster.OutlierDetection{
			SplitExternalLocalOriginErrors:         true,
			ConsecutiveLocalOriginFailure:          wrapperspb.UInt32(1),
			EnforcingConsecutiveLocalOriginFailure: wrapperspb.UInt32(100),
			EnforcingLocalOriginSuccessRate:        wrapperspb.UInt32(0),
			MaxEjectionPercent:                     wrapperspb.UInt32(100),
			Interval:                               durationpb.New(time.Second),
			BaseEjectionTime:                       durationpb.New(ejection),
			MaxEjectionTime:                        durationpb.New(ejection),
		},
		UpstreamConnectionOptions: &cluster.UpstreamConnectionOptions{TcpKeepalive: &core.TcpKeepalive{}},
	}
}
