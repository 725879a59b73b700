package render

import (
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/gridmesh/gridmesh/topology"
)

// clusterTemplate is part of every cluster's version: raising it re-sends all
// of them, and their endpoints after them.
const clusterTemplate = "eds-2"

// clusterFeatures make a cluster, in this order, which is part of its version.
// A feature of a cluster is a file of its own and a line here.
var clusterFeatures = []clusterFeature{
	connectTimeout,
	circuitBreakers,
	failover,
	tcpKeepalive,
}

// clusterFeature is one traffic feature. It must not depend on endpoints.
type clusterFeature struct {
	// version is what apply's outcome depends on. A feature that is new, or
	// whose constants change, says so by a word of its own ("keepalive-2"):
	// all clusters are then sent again. Nil for what clusterTemplate covers.
	version func(ClusterSpec, Config) []string
	apply   func(*cluster.Cluster, ClusterSpec, Config)
}

// ClusterSpec is what one cluster depends on besides the Config.
type ClusterSpec struct {
	Name string
	Near bool // what it may reach first is in a unit of this node
}

// ClusterName names the cluster of a frontend. For TCP it must be what Envoy
// makes of the address that the client dialled.
func ClusterName(f topology.Frontend) string {
	if f.Protocol == topology.TCP {
		return f.AddrPort().String()
	}
	return f.String()
}

// Cluster renders the cluster of a frontend. It does not depend on which
// endpoints there are, but for Near: every change of a cluster makes Envoy warm
// it again.
func Cluster(spec ClusterSpec, cfg Config) Resource {
	return clusterOf(clusterFeatures, spec, cfg)
}

func clusterOf(features []clusterFeature, spec ClusterSpec, cfg Config) Resource {
	f := new(fingerprint).add(clusterTemplate, spec.Name)
	for _, feature := range features {
		if feature.version != nil {
			f.add(feature.version(spec, cfg)...)
		}
	}
	return Resource{
		Type: ClusterType, Name: spec.Name, Version: f.version(),
		Message: func() proto.Message {
			c := edsCluster(spec.Name, cfg.OnDemand)
			for _, feature := range features {
				feature.apply(c, spec, cfg)
			}
			return c
		},
	}
}

// edsCluster is a cluster without features: its endpoints come by ADS. Until they do, the
// connections for which it was asked for wait, and one that is replaced serves; for no longer
// than patience: without endpoints it refuses.
func edsCluster(name string, patience time.Duration) *cluster.Cluster {
	source := ads()
	source.InitialFetchTimeout = durationpb.New(patience)
	return &cluster.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS},
		EdsClusterConfig:     &cluster.Cluster_EdsClusterConfig{EdsConfig: source},
		LbPolicy:             cluster.Cluster_ROUND_ROBIN,
	}
}
