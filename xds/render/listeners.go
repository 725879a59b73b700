package render

import (
	"strconv"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/gridmesh/gridmesh/internal/ports"
)

// listenerTemplate is part of the version of every capture listener. Raising
// it drains all captured connections of every node: the listeners are a contract.
const listenerTemplate = "tcp-2"

// listenersBefore are the templates that an Envoy may go on with until it is
// started anew, for what they lack is not worth a drain. tcp-1 had no keepalive.
var listenersBefore = []string{"tcp-1"}

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

// Listeners are the constant TCP capture listeners, two for each IP version
// that the node has: one keeps the client's address, one does not. With cfg.Redirect there are as many for
// redirected connections.
func Listeners(cfg Config) []Resource {
	var list []Resource
	for _, l := range capturePorts {
		if l.redirected && !cfg.Redirect || l.ipv6() && cfg.NoIPv6 {
			continue
		}
		port := l.port(cfg.Ports)
		version := func(template string) string {
			return new(fingerprint).add(template, l.name, strconv.Itoa(int(port)), strconv.Itoa(int(cfg.Mark)), cfg.OnDemand.String()).version()
		}
		r := Resource{
			Type: ListenerType, Name: l.name, Version: version(listenerTemplate),
			Message: func() proto.Message { return tcpListener(cfg, l, port) },
		}
		for _, template := range listenersBefore {
			r.Before = append(r.Before, version(template))
		}
		list = append(list, r)
	}
	return list
}

func (l capturePort) ipv6() bool { return strings.Contains(l.address, ":") }

// listenersOfIPv6 are the names of those that need IPv6, redirects included.
func listenersOfIPv6() (names []string) {
	for _, l := range capturePorts {
		if l.ipv6() {
			names = append(names, l.name)
		}
	}
	return names
}

func tcpListener(cfg Config, l capturePort, port uint16) *listener.Listener {
	var filters []*listener.ListenerFilter
	for _, f := range captureFilters {
		if f.when == nil || f.when(l) {
			filters = append(filters, listenerFilter(f.name, f.config(cfg)))
		}
	}
	return &listener.Listener{
		Name:    l.name,
		Address: socketAddress(core.SocketAddress_TCP, l.address, port),
		// What tproxy assigns must be transparent; what was redirected must not
		// be, or its own address is taken for the one that was dialled.
		Transparent:                   wrapperspb.Bool(!l.redirected),
		ListenerFilters:               filters,
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(64 << 10),
		TcpKeepalive:                  clientKeepalive(),
		FilterChains:                  []*listener.FilterChain{{Filters: []*listener.Filter{tcpProxy(cfg)}}},
	}
}
