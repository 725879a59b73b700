package admin

import "math"

// Overload is how near Envoy is to what it may use. What it has no limit for it
// says nothing of, and neither does one whose bootstrap is of before it was asked.
type Overload struct {
	Connections uint64 `json:"connections"`       // of clients, that were open when it last counted them, which it does every 5 s
	Refused     uint64 `json:"refused"`           // since its start, each that it closed at once for it had as many as it takes
	Heap        uint64 `json:"heapPercent"`       // of what it may use; 0 where there is no limit
	Stopped     bool   `json:"stopped,omitempty"` // it takes no connection, for its memory is full
}

// The statistics that are read, by Prometheus' names. What the monitor of connections
// calls a failed update is a connection that it did not allow, no more and no
// less: a connection of a client is allowed one by one, and nothing else is. It
// rises at once, with downstream_global_cx_overflow of the listeners. Those that
// wait in the kernel while Envoy takes none at all are not in it.
const (
	statConnections = "envoy_server_total_connections"
	statRefused     = "envoy_overload_envoy_resource_monitors_global_downstream_max_connections_failed_updates"
	statHeap        = "envoy_overload_envoy_resource_monitors_fixed_heap_pressure"
	statStopped     = "envoy_overload_envoy_overload_actions_stop_accepting_connections_active"
)

// set takes a statistic, and reports whether it is one of these.
func (o *Overload) set(name string, value uint64) bool {
	value = min(value, math.MaxInt64)
	switch name {
	case statConnections:
		o.Connections = value
	case statRefused:
		o.Refused = value
	case statHeap:
		o.Heap = value
	case statStopped:
		o.Stopped = value > 0
	default:
		return false
	}
	return true
}
