package render

import (
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	originaldst "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_dst/v3"
	originalsrc "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_src/v3"
	setstate "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/set_filter_state/v3"
	"google.golang.org/protobuf/proto"
)

// captureFilters are the listener filters of a capture listener, in the order
// in which a connection passes them. They are covered by listenerTemplate.
var captureFilters = []captureFilter{
	originalDestination,
	clusterByDestination,
	originalSource,
}

// captureFilter is one listener filter.
type captureFilter struct {
	name   string
	when   func(capturePort) bool // nil: on every capture listener
	config func(Config) proto.Message
}

// originalDestination finds the address that the client dialled.
var originalDestination = captureFilter{
	name:   "envoy.filters.listener.original_dst",
	config: func(Config) proto.Message { return &originaldst.OriginalDst{} },
}

// clusterByDestination names the cluster after that address.
var clusterByDestination = captureFilter{
	name: "envoy.filters.listener.set_filter_state",
	config: func(Config) proto.Message {
		return &setstate.Config{OnAccept: []*common.FilterStateValue{clusterFromDestination()}}
	},
}

// originalSource lets the endpoint see the client's address.
var originalSource = captureFilter{
	name:   "envoy.filters.listener.original_src",
	when:   func(l capturePort) bool { return l.keep },
	config: func(cfg Config) proto.Message { return &originalsrc.OriginalSrc{Mark: cfg.Mark} },
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
