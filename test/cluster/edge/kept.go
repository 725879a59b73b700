package edge

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// AgentState and DNSState are the files that an agent and a DNS server start
// again from, below Dir.
const (
	AgentState = "state/state"
	DNSState   = "dns.v1"
)

// KeptName is an error unless a state file has a Service by name alone, as one that no node serves.
func (e *Node) KeptName(file, service string) error {
	entry, err := e.service(file, service)
	if err == nil && !entry.Service.Foreign {
		err = fmt.Errorf("state file %s of %s does not have %s by its name alone", file, e.Name, service)
	}
	return err
}

// Kept returns nil once the state file on disk has all of these as ready
// endpoints of a Service ("NAMESPACE/NAME"): what was written before the
// cloud went away is what a node starts again from.
func (e *Node) Kept(file, service string, addrs ...netip.Addr) error {
	entry, err := e.service(file, service)
	if err != nil {
		return err
	}
	var have []netip.Addr
	for _, slice := range entry.Slices {
		for i := range slice.Endpoints {
			if slice.Endpoints[i].Ready {
				have = append(have, slice.Endpoints[i].Addr)
			}
		}
	}
	for _, addr := range addrs {
		if !slices.Contains(have, addr) {
			return fmt.Errorf("state file %s of %s has %v as ready endpoints of %s, without %s", file, e.Name, have, service, addr)
		}
	}
	return nil
}

// KeptLabel returns nil once the state file on disk has a label of a node.
func (e *Node) KeptLabel(file, node, key, value string) error {
	st, err := e.state(file)
	if err != nil {
		return err
	}
	if n, ok := st.Snapshot.Nodes.Get(node); !ok || n.Labels[key] != value {
		return fmt.Errorf("state file %s of %s does not have the label %s=%s of node %s", file, e.Name, key, value, node)
	}
	return nil
}

// service is what a state file has of a Service.
func (e *Node) service(file, service string) (*topology.Entry, error) {
	st, err := e.state(file)
	if err != nil {
		return nil, err
	}
	namespace, name, _ := strings.Cut(service, "/")
	entry, ok := st.Snapshot.Services.Get(topology.ObjectKey{Namespace: namespace, Name: name})
	if !ok || entry.Service == nil {
		return nil, fmt.Errorf("state file %s of %s has no Service %s", file, e.Name, service)
	}
	return entry, nil
}

func (e *Node) state(file string) (*source.State, error) {
	data, err := os.ReadFile(e.Dir + "/" + file)
	if err != nil {
		return nil, err
	}
	st, err := source.DecodeState(data)
	if err != nil {
		return nil, fmt.Errorf("state file %s of %s %w", file, e.Name, err)
	}
	return st, nil
}
