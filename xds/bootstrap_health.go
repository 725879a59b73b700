package xds

// healthListener answers a kubelet's probes, which can ask no Unix socket. It
// serves once Envoy's own start is over, from the threads that serve everybody
// else, and also while Envoy takes no connections for want of memory: a restart
// would cost those it holds.
func healthListener(port uint16) object {
	const types = "type.googleapis.com/envoy.extensions.filters."
	return object{
		"name":                     "health",
		"address":                  object{"socket_address": object{"address": "127.0.0.1", "port_value": port}},
		"ignore_global_conn_limit": true,
		"bypass_overload_manager":  true,
		"filter_chains": array{object{"filters": array{object{
			"name": "health",
			"typed_config": object{
				"@type":       types + "network.http_connection_manager.v3.HttpConnectionManager",
				"stat_prefix": "health",
				"route_config": object{"virtual_hosts": array{object{
					"name": "health", "domains": array{"*"},
					"routes": array{object{"match": object{"path": "/ready"}, "direct_response": object{"status": 200}}},
				}}},
				"http_filters": array{object{"name": "router", "typed_config": object{"@type": types + "http.router.v3.Router"}}},
			},
		}}}},
	}
}
