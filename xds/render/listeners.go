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

	"github.com/gridmesh/gridmesh/internal/ports"
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

// capturePort is one constant listener.
type capturePort struct {
	name, address string
	port          func(ports.Ports) uint16
	keep          bool // the client's address
	redirected    bool // comes by NAT, and not by tproxy
}

var capturePorts = []capturePort{
	{"tcp4-keep", "127.0.0.1", ports.Ports.Keep, true, false},
	{"tcp4-plain", "127.0.0.1", ports.Ports.Plain, false, false},
	{"tcp6-keep", "::1", ports.Ports.Keep, true, false},
	{"tcp6-plain", "::1", ports.Ports.Plain, false, false},
	// A redirect leads to the address of the interface, whatever it is; the
	// kernel refuses there what was not redirected.
	{"tcp4-redirect-keep", "0.0.0.0", ports.Ports.RedirectKeep, true, true},
	{"tcp4-redirect-plain", "0.0.0.0", ports.Ports.RedirectPlain, false, true},
	{"tcp6-redirect-keep", "::", ports.Ports.RedirectKeep, true, true},
	{"tcp6-redirect-plain", "::", ports.Ports.RedirectPlain, false, true},
}

// Listeners are the constant TCP capture listeners, two a family: one keeps
// the client's address, one does not. With cfg.Redirect there are as many for
// redirected connections.
func Listeners(cfg Config) []Resource {
	var list []Resource
	for _, l := range capturePorts {
		if l.redirected && !cfg.Redirect {
			continue
		}
		port := l.port(cfg.Ports)
		f := new(fingerprint).add(listenerTemplate, l.name, strconv.Itoa(int(port)), strconv.Itoa(int(cfg.Mark)), cfg.OnDemand.String())
		list = append(list, Resource{
			Type: ListenerType, Name: l.name, Version: f.version(),
			Message: func() proto.Message { return tcpListener(cfg, l, port) },
		})
	}
	return list
}

func tcpListener(cfg Config, l capturePort, port uint16) *listener.Listener {
	filters := []*listener.ListenerFilter{
		listenerFilter("envoy.filters.listener.original_dst", &originaldst.OriginalDst{}),
		listenerFilter("envoy.filters.listener.set_filter_state", &setstate.Config{OnAccept: []*common.FilterStateValue{clusterFromDestination()}}),
	}
	if l.keep {
		filters = append(filters, listenerFilter("envoy.filters.listener.original_src", &originalsrc.OriginalSrc{Mark: cfg.Mark}))
	}
	return &listener.Listener{
		Name:    l.name,
		Address: socketAddress(core.SocketAddress_TCP, l.address, port),
		// What tproxy assigns must be transparent; what was redirected must not
		// be, or its own address is taken for the one that was dialled.
		Transparent:                   wrapperspb.Bool(!l.redirected),
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
