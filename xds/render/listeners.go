package render

import (
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	originaldst "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_dst/v3"
	originalsrc "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_src/v3"
	setstate "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/set_filter_state/v3"
	tcpproxy "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// listenerTemplate is part of the version of every capture listener. Raising
// it drains all captured connections of every node: the listeners are a contract.
const listenerTemplate = "tcp-1"

// connectAttempts must exceed the number of dead endpoints that a client may
// meet before a living one; a dead one can be picked twice before its ejection
// has come round. 24 covers a node with 10 of them.
const connectAttempts = 24

// idleTimeout is what conntrack grants an established connection by default
// under kube-proxy.
const idleTimeout = 24 * time.Hour

// Listeners are the constant TCP capture listeners, two a family: one keeps
// the client's address, one does not.
func Listeners(cfg Config) []Resource {
	var list []Resource
	for _, l := range []struct {
		name, address string
		port          uint16
		keep          bool
	}{
		{"tcp4-keep", "127.0.0.1", cfg.PortBase, true},
		{"tcp4-plain", "127.0.0.1", cfg.PortBase + 1, false},
		{"tcp6-keep", "::1", cfg.PortBase, true},
		{"tcp6-plain", "::1", cfg.PortBase + 1, false},
	} {
		f := new(fingerprint).add(listenerTemplate, l.name, strconv.Itoa(int(l.port)), strconv.Itoa(int(cfg.Mark)), cfg.OnDemand.String())
		list = append(list, Resource{
			Type: ListenerType, Name: l.name, Version: f.version(),
			Message: func() proto.Message { return tcpListener(cfg, l.name, l.address, l.port, l.keep) },
		})
	}
	return list
}

func tcpListener(cfg Config, name, address string, port uint16, keep bool) *listener.Listener {
	filters := []*listener.ListenerFilter{
		listenerFilter("envoy.filters.listener.original_dst", &originaldst.OriginalDst{}),
		listenerFilter("envoy.filters.listener.set_filter_state", &setstate.Config{OnAccept: []*common.FilterStateValue{clusterFromDestination()}}),
	}
	if keep {
		filters = append(filters, listenerFilter("envoy.filters.listener.original_src", &originalsrc.OriginalSrc{Mark: cfg.Mark}))
	}
	return &listener.Listener{
		Name:                          name,
		Address:                       socketAddress(core.SocketAddress_TCP, address, port),
		Transparent:                   wrapperspb.Bool(true),
		ListenerFilters:               filters,
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(64 << 10),
		FilterChains: []*listener.FilterChain{{Filters: []*listener.Filter{{
			Name:       "envoy.filters.network.tcp_proxy",
			ConfigType: &listener.Filter_TypedConfig{TypedConfig: mustAny(tcpProxy(cfg))},
		}}}},
	}
}

// clusterFromDestination names the cluster after the address that the client
// dialled: "10.96.0.10:80" or "[fd00::10]:80".
func clusterFromDestination() *common.FilterStateValue {
	return &common.FilterStateValue{
		Key: &common.FilterStateValue_ObjectKey{ObjectKey: "envoy.tcp_proxy.cluster"},
		Value: &common.FilterStateValue_FormatString{FormatString: &core.SubstitutionFormatString{
			Format: &core.SubstitutionFormatString_TextFormatSource{TextFormatSource: &core.DataSource{
				Specifier: &core.DataSource_InlineString{InlineString: "%DOWNSTREAM_LOCAL_ADDRESS%"},
			}},
		}},
	}
}

func tcpProxy(cfg Config) *tcpproxy.TcpProxy {
	return &tcpproxy.TcpProxy{
		StatPrefix:         "service",
		ClusterSpecifier:   &tcpproxy.TcpProxy_Cluster{Cluster: "none"},
		MaxConnectAttempts: wrapperspb.UInt32(connectAttempts),
		// Time for an ejection to reach the workers before the next attempt.
		BackoffOptions: &core.BackoffStrategy{BaseInterval: durationpb.New(5 * time.Millisecond), MaxInterval: durationpb.New(10 * time.Millisecond)},
		IdleTimeout:    durationpb.New(idleTimeout),
		OnDemand:       &tcpproxy.TcpProxy_OnDemand{OdcdsConfig: ads(), Timeout: durationpb.New(cfg.OnDemand)},
	}
}

func listenerFilter(name string, config proto.Message) *listener.ListenerFilter {
	return &listener.ListenerFilter{Name: name, ConfigType: &listener.ListenerFilter_TypedConfig{TypedConfig: mustAny(config)}}
}

func ads() *core.ConfigSource {
	return &core.ConfigSource{ResourceApiVersion: core.ApiVersion_V3, ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}}}
}

func socketAddress(p core.SocketAddress_Protocol, address string, port uint16) *core.Address {
	return &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
		Protocol: p, Address: address, PortSpecifier: &core.SocketAddress_PortValue{PortValue: uint32(port)},
	}}}
}

// mustAny packs a message of ours; it fails only where protobuf itself is broken.
func mustAny(m proto.Message) *anypb.Any {
	a, err := anypb.New(m)
	if err != nil {
		panic(err)
	}
	return a
}
