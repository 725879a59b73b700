package render

import (
	"hash"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gridmesh/gridmesh/internal/ports"
)

// Type URLs of the resources that are served.
const (
	ClusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	EndpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	ListenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
)

// Config is what the resources depend on besides the view.
type Config struct {
	Ports          ports.Ports   // of the capture listeners
	Mark           uint32        // of Envoy's own packets
	ConnectTimeout time.Duration // inside a unit; see clusters.go
	OnDemand       time.Duration // how long a first connection waits for its cluster
	Redirect       bool          // serve connections that come redirected, too
	NoIPv6         bool          // the node has none: nothing is bound to its addresses
	MaxUDP         int           // most UDP listeners, besides those of the cluster's DNS
}

// Default is the configuration that was measured (docs/ARCHITECTURE.md).
func Default() Config {
	return Config{Ports: ports.Default(), Mark: 0x2, ConnectTimeout: 300 * time.Millisecond, OnDemand: 5 * time.Second, MaxUDP: 100}
}

// Resource is one Envoy resource.
type Resource struct {
	Type    string
	Name    string
	Version string
	// Before are older versions that an Envoy which holds one of them keeps.
	Before []string
	// Message makes the protobuf; it is called only when it has to be sent.
	Message func() proto.Message
}

// Suffices reports whether an Envoy that holds a version needs no other.
func (r Resource) Suffices(version string) bool {
	return version == r.Version || slices.Contains(r.Before, version)
}

// fingerprint hashes canonical fields as they come: a Service may have a hundred
// thousand endpoints.
type fingerprint struct {
	hash   hash.Hash
	quoted []byte // the field at hand
}

func (f *fingerprint) add(fields ...string) *fingerprint {
	if f.hash == nil {
		f.hash = fnv.New128a()
	}
	for _, s := range fields {
		f.quoted = strconv.AppendQuote(f.quoted[:0], s)
		_, _ = f.hash.Write(f.quoted)
	}
	return f
}

// version is of what was added.
func (f *fingerprint) version() string {
	const hex = "0123456789abcdef"
	sum := f.hash.Sum(nil)
	out := make([]byte, 0, 16)
	for _, b := range sum[:8] {
		out = append(out, hex[b>>4], hex[b&15])
	}
	return string(out)
}
