package render

import (
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// farConnectTimeout is the least that endpoints get which may lie behind a slow
// link: those of a Service without keys, and those of the tier "*" where no
// tier before it has any.
const farConnectTimeout = time.Second

// connectTimeout is how long an endpoint may take to accept.
var connectTimeout = clusterFeature{
	version: func(spec ClusterSpec, cfg Config) []string { return []string{timeoutOf(spec, cfg).String()} },
	apply: func(c *cluster.Cluster, spec ClusterSpec, cfg Config) {
		c.ConnectTimeout = durationpb.New(timeoutOf(spec, cfg))
	},
}

func timeoutOf(spec ClusterSpec, cfg Config) time.Duration {
	if spec.Near {
		return cfg.ConnectTimeout
	}
	return max(cfg.ConnectTimeout, farConnectTimeout)
}
