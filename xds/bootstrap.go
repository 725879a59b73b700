package xds

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// Bootstrap is what an Envoy's bootstrap depends on.
type Bootstrap struct {
	Node        string // the node's name
	Socket      string // path of the agent's xDS socket
	AdminSocket string // path of Envoy's admin socket; mode 0600, created by Envoy
	HeapBytes   uint64 // what Envoy may use of memory; 0: no limit
	Mark        uint32 // of Envoy's own packets
	HealthPort  uint16 // of loopback, where Envoy says at /ready that it serves
}

type (
	object = map[string]any
	array  = []any
)

// YAML renders the bootstrap. One ADS stream carries everything, clusters on
// demand included. The short retry back-off matters: with Envoy's default a
// stream that was away for half a minute comes back half a minute late.
func (b Bootstrap) YAML() ([]byte, error) {
	node := object{"id": b.Node, "cluster": "gridmesh"}
	if most := maxConnections(b.HeapBytes); most > 0 {
		node["metadata"] = object{maxConnectionsKey: most} // Envoy tells it to the xDS server
	}
	doc := object{
		"node": node,
		"admin": object{
			"address": object{"pipe": object{"path": b.AdminSocket, "mode": 0o600}},
			// Whoever looks after a full Envoy gets in.
			"ignore_global_conn_limit": true,
		},
		"dynamic_resources": object{
			"ads_config": object{
				"api_type": "DELTA_GRPC", "transport_api_version": "V3", "set_node_on_first_message_only": true,
				"grpc_services": array{object{"envoy_grpc": object{
					"cluster_name": "xds",
					"retry_policy": object{"retry_back_off": object{"base_interval": "0.05s", "max_interval": "0.5s"}},
				}}},
			},
			"cds_config": object{"resource_api_version": "V3", "initial_fetch_timeout": "2s", "ads": object{}},
			"lds_config": object{"resource_api_version": "V3", "initial_fetch_timeout": "2s", "ads": object{}},
		},
		"static_resources": object{"clusters": array{xdsCluster(b.Socket)}, "listeners": array{healthListener(b.HealthPort)}},
		// Everything else costs 33 KiB of Envoy's memory a cluster.
		"stats_config": object{"stats_matcher": object{"inclusion_list": object{"patterns": statistics()}}},
		// Those of connections are made when a cluster has its first.
		"deferred_stat_options": object{"enable_deferred_creation_stats": true},
		"cluster_manager": object{
			"upstream_bind_config": object{"socket_options": array{soMark(b.Mark)}},
		},
	}
	if b.HeapBytes > 0 {
		doc["overload_manager"] = overload(b.HeapBytes)
	}
	out, err := yaml.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("render bootstrap: %w", err)
	}
	return out, nil
}

// statistics are those that Envoy keeps: of itself, and of a cluster what
// admin.Reader.Stats asks for, in 4 KiB (docs/adr/0011).
func statistics() (patterns array) {
	for _, prefix := range []string{"cluster_manager.", "listener_manager.", "control_plane.", "server.", "overload.", "tcp.service.", "udp.service."} {
		patterns = append(patterns, object{"prefix": prefix})
	}
	for _, suffix := range []string{".upstream_cx_total", ".upstream_cx_connect_fail", ".upstream_cx_active", ".outlier_detection.ejections_active"} {
		patterns = append(patterns, object{"suffix": suffix})
	}
	return patterns
}

func xdsCluster(socket string) object {
	const protocol = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	return object{
		"name": "xds", "type": "STATIC", "connect_timeout": "1s",
		"typed_extension_protocol_options": object{protocol: object{
			"@type": "type.googleapis.com/" + protocol,
			"explicit_http_config": object{"http2_protocol_options": object{
				// An agent that hangs without closing is noticed, too.
				"connection_keepalive": object{"interval": "5s", "timeout": "5s"},
			}},
		}},
		"load_assignment": object{"cluster_name": "xds", "endpoints": array{object{"lb_endpoints": array{
			object{"endpoint": object{"address": object{"pipe": object{"path": socket}}}},
		}}}},
	}
}

// soMark marks Envoy's own packets, so that the capture leaves them alone.
func soMark(mark uint32) object {
	const solSocket, soMark = 1, 36
	return object{"description": "mark", "level": solSocket, "name": soMark, "int_value": mark, "state": "STATE_PREBIND"}
}

// heapPerConnection is what a proxied connection takes that has little in its
// buffers (19 KiB were measured).
const heapPerConnection = 20 << 10

// maxConnectionsKey is where the metadata of an Envoy's node say how many
// connections it takes.
const maxConnectionsKey = "gridmesh.io/max-connections"

func maxConnections(heap uint64) uint64 { return heap / 2 / heapPerConnection }

// overload keeps Envoy inside its memory: what connections can use up is
// bounded by their number, and refused at once beyond it; what is left of the
// limit is for clusters, which the xDS server bounds (Config.MaxOnDemand). At the
// limit itself Envoy gives memory back, then takes no more connections; those
// that it has go on.
func overload(heap uint64) object {
	const monitors, kinds = "envoy.resource_monitors.", "type.googleapis.com/envoy.extensions.resource_monitors."
	above := func(action string, threshold float64) object {
		return object{"name": "envoy.overload_actions." + action, "triggers": array{
			object{"name": monitors + "fixed_heap", "threshold": object{"value": threshold}},
		}}
	}
	return object{
		"refresh_interval": "0.25s",
		"resource_monitors": array{
			object{"name": monitors + "fixed_heap", "typed_config": object{
				"@type": kinds + "fixed_heap.v3.FixedHeapConfig", "max_heap_size_bytes": heap,
			}},
			object{"name": monitors + "global_downstream_max_connections", "typed_config": object{
				"@type":                             kinds + "downstream_connections.v3.DownstreamConnectionsConfig",
				"max_active_downstream_connections": maxConnections(heap),
			}},
		},
		"actions": array{above("shrink_heap", 0.9), above("stop_accepting_connections", 0.95)},
	}
}
