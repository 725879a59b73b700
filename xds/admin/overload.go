package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/url"
)

// Overload is how near Envoy is to what it may use.
type Overload struct {
	Connections uint64 `json:"connections"`       // of clients, that were open when it last counted them, which it does every 5 s
	Refused     uint64 `json:"refused"`           // since its start, each that it closed at once for it had as many as it takes
	Heap        uint64 `json:"heapPercent"`       // of what it may use; 0 where there is no limit
	Stopped     bool   `json:"stopped,omitempty"` // it takes no connection, for its memory is full
}

// The statistics that are read, by their names. What the monitor of connections
// calls a failed update is a connection that it did not allow, no more and no
// less: a connection of a client is allowed one by one, and nothing else is. It
// rises at once, with downstream_global_cx_overflow of the listeners. Those that
// wait in the kernel while Envoy takes none at all are not in it.
const (
	statConnections = "server.total_connections"
	statRefused     = "overload.envoy.resource_monitors.global_downstream_max_connections.failed_updates"
	statHeap        = "overload.envoy.resource_monitors.fixed_heap.pressure"
	statStopped     = "overload.envoy.overload_actions.stop_accepting_connections.active"
)

// maxStats bounds the answer: it is four numbers.
const maxStats = 1 << 20

// Overload asks for it. What Envoy has no limit for it says nothing of, and
// neither does one whose bootstrap is of before it was asked.
func (r *Reader) Overload(ctx context.Context) (Overload, error) {
	o, err := r.overload(ctx)
	if err != nil {
		return o, fmt.Errorf("ask Envoy for its load: %w", err)
	}
	return o, nil
}

func (r *Reader) overload(ctx context.Context) (o Overload, err error) {
	query := url.Values{"format": {"json"}, "filter": {`^(overload\.|server\.total_connections$)`}}
	body, err := r.get(ctx, "stats?"+query.Encode())
	if err != nil {
		return o, err
	}
	defer body.Close()
	return decodeOverload(io.LimitReader(body, maxStats))
}

func decodeOverload(r io.Reader) (o Overload, err error) {
	var answer struct {
		Stats []struct {
			Name  string  `json:"name"`
			Value float64 `json:"value"` // absent in histograms
		} `json:"stats"`
	}
	if err := json.NewDecoder(r).Decode(&answer); err != nil {
		return o, err
	}
	for _, s := range answer.Stats {
		n := uint64(min(max(0, s.Value), math.MaxInt64))
		switch s.Name {
		case statConnections:
			o.Connections = n
		case statRefused:
			o.Refused = n
		case statHeap:
			o.Heap = n
		case statStopped:
			o.Stopped = n > 0
		}
	}
	return o, nil
}
