package render

import (
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	udpproxy "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/udp/udp_proxy/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/gridmesh/gridmesh/topology"
)

const udpTemplate = "udp-1"

// udpPrefix begins the names of UDP listeners; udpSuffix ends those of their clusters.
const udpPrefix, udpSuffix = "udp-", "/udp"

// OfUDP reports whether a cluster is of a UDP frontend.
func OfUDP(cluster string) bool { return strings.HasSuffix(cluster, udpSuffix) }

// ListenerOf is the listener of a cluster.
func ListenerOf(cluster string) string {
	return udpPrefix + strings.TrimSuffix(cluster, udpSuffix)
}

// udpIdle is how long a session without packets is kept (Envoy's default).
const udpIdle = time.Minute

// UDPListener renders the listener of one UDP frontend, bound to the
// ClusterIP itself: udp_proxy has neither on-demand clusters nor original_dst.
func UDPListener(f topology.Frontend) Resource {
	name := ListenerOf(ClusterName(f))
	return Resource{
		Type: ListenerType, Name: name, Version: new(fingerprint).add(udpTemplate, name).version(),
		Message: func() proto.Message { return udpListener(name, f) },
	}
}

func udpListener(name string, f topology.Frontend) *listener.Listener {
	proxy := &udpproxy.UdpProxyConfig{
		StatPrefix: "service",
		// Deprecated for a matcher that Envoy 1.40 calls work in progress.
		RouteSpecifier: &udpproxy.UdpProxyConfig_Cluster{Cluster: ClusterName(f)}, //nolint:staticcheck
		IdleTimeout:    durationpb.New(udpIdle),
	}
	return &listener.Listener{
		Name:            name,
		Address:         socketAddress(core.SocketAddress_UDP, f.Addr.String(), f.Port),
		Freebind:        wrapperspb.Bool(true),
		Transparent:     wrapperspb.Bool(true),
		ListenerFilters: []*listener.ListenerFilter{listenerFilter("envoy.filters.udp_listener.udp_proxy", proxy)},
	}
}
