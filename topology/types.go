package topology

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
)

// ObjectKey names a namespaced object.
type ObjectKey struct { // the next free number is 3
	Namespace string `cbor:"1,keyasint,omitempty"`
	Name      string `cbor:"2,keyasint,omitempty"`
}

// String is "namespace/name".
func (k ObjectKey) String() string { return k.Namespace + "/" + k.Name }

// Compare orders keys by namespace, then name.
func (k ObjectKey) Compare(o ObjectKey) int {
	return cmp.Or(strings.Compare(k.Namespace, o.Namespace), strings.Compare(k.Name, o.Name))
}

// Protocol is a transport protocol, with its IANA number.
type Protocol uint8

// The protocols of Kubernetes Services. The kernel path alone can carry SCTP.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

// String is the lower-case name, as in "10.96.0.1:443/tcp".
func (p Protocol) String() string {
	switch p {
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	case SCTP:
		return "sctp"
	}
	return fmt.Sprintf("proto-%d", uint8(p))
}

// Service is what the rules need of a Kubernetes Service.
type Service struct { // the next free number is 19
	Key        ObjectKey     `cbor:"1,keyasint"`
	ClusterIPs []netip.Addr  `cbor:"2,keyasint,omitempty"` // at most one a family; empty when headless
	Ports      []ServicePort `cbor:"3,keyasint,omitempty"`
	// TopologyKeys is the annotation as written; nil where it is absent.
	TopologyKeys *string `cbor:"4,keyasint,omitempty"`
	// Misspelt is the annotation's name where it is a mistyped topologyKeys.
	Misspelt string `cbor:"10,keyasint,omitempty"`
	// InternalLocal is internalTrafficPolicy: Local.
	InternalLocal bool `cbor:"5,keyasint,omitempty"`
	Headless      bool `cbor:"6,keyasint,omitempty"`
	// GridKey is the unit key of the grid that made it: the label
	// superedge.io/grid-uniq-key, or gridmesh.io/unit-key where that cannot hold it.
	GridKey string `cbor:"7,keyasint,omitempty"`
	// Problems are mistakes found while the object was read.
	Problems []Problem `cbor:"8,keyasint,omitempty"`
	// Unserved is what it asks for besides its ClusterIPs, whether or not it is
	// known what exactly: a state of before this was kept has nothing else.
	Unserved Unserved `cbor:"11,keyasint,omitempty"`
	// Selector stands for the selector of its pods: two that are known and differ
	// are two selectors. 0: not known.
	Selector uint64 `cbor:"12,keyasint,omitempty"`
	// Foreign: it exists, and no node serves it, for it is an ExternalName, left to
	// another proxy by label or labelled headless. Nothing but its name is kept, and Problems.
	Foreign bool `cbor:"9,keyasint,omitempty"`
	// Created is when it was made, in seconds since 1970: of what two Services ask
	// for the elder has it. 0: not known, as of what no API server has made yet, and so
	// younger than all that are known; a state of before has none of them.
	Created int64 `cbor:"15,keyasint,omitempty"`
	// Datapath is what it chose by annotation; DatapathNone: nothing.
	Datapath Datapath `cbor:"16,keyasint,omitempty"`
	// Affinity is the timeout of sessionAffinity ClientIP, in seconds; 0: none.
	Affinity uint32 `cbor:"13,keyasint,omitempty"`
	// Exposure is what it offers besides ClusterIPs and node ports; nil: nothing.
	Exposure *Exposure `cbor:"14,keyasint,omitempty"`
	// Others are what it asks for and other Services have that may be missing here, and
	// Portion is how many pairs of a port and an address besides its ClusterIPs it has where
	// others of its namespace have the rest; nil: as many as there is room for. Both are of
	// what was kept (Viewer.Own), and no object of the API has them. Others are sorted.
	Others  []Owned `cbor:"17,keyasint,omitempty"`
	Portion *int    `cbor:"18,keyasint,omitempty"`
}

// Owned is a frontend that another Service has, or with the port 0 a ClusterIP.
type Owned struct { // the next free number is 5
	Addr     netip.Addr `cbor:"1,keyasint"`
	Port     uint16     `cbor:"2,keyasint,omitempty"`
	Protocol Protocol   `cbor:"3,keyasint,omitempty"`
	Owner    ObjectKey  `cbor:"4,keyasint"`
}

// ServicePort is one port of a Service.
type ServicePort struct { // the next free number is 5
	Name     string   `cbor:"1,keyasint,omitempty"`
	Protocol Protocol `cbor:"2,keyasint"`
	Port     uint16   `cbor:"3,keyasint"`
	NodePort uint16   `cbor:"4,keyasint,omitempty"` // 0: none
}

// Exposure is what few Services have: addresses outside the range of
// ClusterIPs, and what is to be done with those who dial them or a node port.
type Exposure struct { // the next free number is 6
	ExternalIPs   []netip.Addr `cbor:"1,keyasint,omitempty"`
	LoadBalancers []netip.Addr `cbor:"2,keyasint,omitempty"` // those whose packets arrive on nodes with that destination
	// Sources are who may dial LoadBalancers; without one of a family, everybody.
	Sources []netip.Prefix `cbor:"3,keyasint,omitempty"`
	// Local is externalTrafficPolicy: Local.
	Local bool `cbor:"4,keyasint,omitempty"`
	// HealthCheckNodePort is where load balancers ask whether this node has
	// endpoints of its own; 0: nowhere.
	HealthCheckNodePort uint16 `cbor:"5,keyasint,omitempty"`
}

// Slice is what the rules need of an EndpointSlice.
type Slice struct { // the next free number is 7
	Key       ObjectKey   `cbor:"1,keyasint"`
	Service   string      `cbor:"2,keyasint"` // name of the Service, same namespace
	IPv6      bool        `cbor:"3,keyasint,omitempty"`
	Ports     []SlicePort `cbor:"4,keyasint,omitempty"`
	Endpoints []Endpoint  `cbor:"5,keyasint,omitempty"`
	Problems  []Problem   `cbor:"6,keyasint,omitempty"`
}

// SlicePort is one port of an EndpointSlice.
type SlicePort struct { // the next free number is 4
	Name     string   `cbor:"1,keyasint,omitempty"`
	Protocol Protocol `cbor:"2,keyasint"`
	Port     uint16   `cbor:"3,keyasint"`
}

// Endpoint is one endpoint of a slice, by its first address (EndpointSlice
// API: the others are of no defined use).
type Endpoint struct { // the next free number is 9
	Addr        netip.Addr `cbor:"1,keyasint"`
	Node        string     `cbor:"2,keyasint,omitempty"`
	Hostname    string     `cbor:"3,keyasint,omitempty"`
	Ready       bool       `cbor:"4,keyasint,omitempty"`
	Serving     bool       `cbor:"5,keyasint,omitempty"`
	Terminating bool       `cbor:"6,keyasint,omitempty"`
	HintZones   []string   `cbor:"7,keyasint,omitempty"`
	HintNodes   []string   `cbor:"8,keyasint,omitempty"`
}

// Node is a node and its labels.
type Node struct { // the next free number is 3
	Name   string            `cbor:"1,keyasint"`
	Labels map[string]string `cbor:"2,keyasint,omitempty"`
}

// Problem is a user's mistake, as data: which object, which field, and what
// to do about it. It never stops anything else.
type Problem struct { // the next free number is 5
	Object string `cbor:"1,keyasint" json:"object"`                    // "service default/web"
	Field  string `cbor:"2,keyasint,omitempty" json:"field,omitempty"` // "metadata.annotations[topologyKeys]"
	Text   string `cbor:"3,keyasint" json:"text"`                      // what is wrong, what is done instead, and the cure
	Loss   Loss   `cbor:"4,keyasint,omitempty" json:"loss,omitempty"`  // what of the object is not in force for it
}

// String is one line: object, field, text.
func (p Problem) String() string {
	if p.Field == "" {
		return p.Object + ": " + p.Text
	}
	return p.Object + ": " + p.Field + ": " + p.Text
}

// Frontend is what clients dial.
type Frontend struct {
	Addr     netip.Addr
	Port     uint16
	Protocol Protocol
}

// AddrPort is the frontend's address and port.
func (f Frontend) AddrPort() netip.AddrPort { return netip.AddrPortFrom(f.Addr, f.Port) }

// String is "10.96.0.10:80/tcp" or "[fd00::1]:53/udp".
func (f Frontend) String() string { return f.AddrPort().String() + "/" + f.Protocol.String() }

// Compare orders frontends by address, port, protocol.
func (f Frontend) Compare(o Frontend) int {
	return cmp.Or(f.Addr.Compare(o.Addr), cmp.Compare(f.Port, o.Port), cmp.Compare(f.Protocol, o.Protocol))
}
