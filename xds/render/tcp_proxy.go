package render

import (
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpproxy "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// connectAttempts must exceed the number of dead endpoints that a client may
// meet before a living one; a dead one can be picked twice before its ejection
// has come round. 24 covers a node with 10 of them.
const connectAttempts = 24

// idleTimeout is what conntrack grants an established connection by default
// under kube-proxy.
const idleTimeout = 24 * time.Hour

// tcpProxy leads a connection to the cluster that the filter state names; one
// that Envoy does not hold is asked for.
func tcpProxy(cfg Config) *listener.Filter {
	proxy := &tcpproxy.TcpProxy{
		StatPrefix:         "service",
		ClusterSpecifier:   &tcpproxy.TcpProxy_Cluster{Cluster: "none"},
		MaxConnectAttempts: wrapperspb.UInt32(connectAttempts),
		// Time for an ejection to reach the workers before the next attempt.
		BackoffOptions: &core.BackoffStrategy{BaseInterval: durationpb.New(5 * time.Millisecond), MaxInterval: durationpb.New(10 * time.Millisecond)},
		IdleTimeout:    durationpb.New(idleTimeout),
		OnDemand:       &tcpproxy.TcpProxy_OnDemand{OdcdsConfig: ads(), Timeout: durationpb.New(cfg.OnDemand)},
	}
	return &listener.Filter{
		Name:       "envoy.filters.network.tcp_proxy",
		ConfigType: &listener.Filter_TypedConfig{TypedConfig: mustAny(proxy)},
	}
}
