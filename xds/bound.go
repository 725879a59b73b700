package xds

import (
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// bound refuses a request after which the peer would have asked for more than
// any Envoy of a node needs: what it names is kept for as long as its stream.
func (s *subscription) bound(r *discovery.DeltaDiscoveryRequest) error {
	initial := r.GetInitialResourceVersions()
	if s.started {
		initial = nil // of no account
	}
	n, bytes, longest := len(s.names)+len(r.GetResourceNamesSubscribe())+len(initial), s.bytes, 0
	count := func(name string) {
		bytes += len(name)
		longest = max(longest, len(name))
	}
	for _, name := range r.GetResourceNamesSubscribe() {
		count(name)
	}
	for name, version := range initial {
		count(name)
		count(version)
	}
	switch {
	case longest > maxName:
		return status.Errorf(codes.ResourceExhausted, "a name or version of type %s has %d bytes; none that is served has more than %d", short(s.typeURL), longest, maxName)
	case n > maxNames:
		return status.Errorf(codes.ResourceExhausted, "%d names of type %s on one stream; at most %d are served", n, short(s.typeURL), maxNames)
	case bytes > maxNameBytes:
		return status.Errorf(codes.ResourceExhausted, "%d bytes of names of type %s on one stream; at most %d are served", bytes, short(s.typeURL), maxNameBytes)
	}
	return nil
}

func (s *subscription) note(name string) {
	if !s.names[name] {
		s.names[name] = true
		s.bytes += len(name)
	}
}

func (s *subscription) drop(name string) {
	if s.names[name] {
		delete(s.names, name)
		s.bytes -= len(name)
	}
}
