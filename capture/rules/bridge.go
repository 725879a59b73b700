package rules

import (
	"fmt"
	"net/netip"

	"github.com/gridmesh/gridmesh/topology"
)

// MAC is an Ethernet address.
type MAC [6]byte

// String is "02:00:00:00:00:01".
func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// PodBridge is a bridge that this node's pods hang on.
type PodBridge struct {
	Name string
	MAC  MAC
	Pods []netip.Prefix
}

// Lift sees every frame that comes in over a bridge: TCP between pods of one
// bridge is lifted to layer 3. Without it the answer of a pod that was dialled
// with a kept source goes straight to the client over the bridge, which knows
// nothing of it and resets.
const Lift = "lift"

// Bridge is the table of the bridges; nil where pods hang on none.
func Bridge(list []PodBridge) *Table {
	if len(list) == 0 {
		return nil
	}
	c := Chain{Name: Lift, Hook: &Hook{Filter, Prerouting, -300}}
	for _, b := range list {
		for _, p := range b.Pods {
			c.Rules = append(c.Rules, lift(b.MAC, p))
		}
	}
	return &Table{Family: "bridge", Name: Name, Chains: []Chain{c}}
}

func lift(mac MAC, pods netip.Prefix) Rule {
	return Rule{
		EtherType{FamilyOf(pods.Addr())},
		NotTo{mac},
		NotGroup{},
		L4{topology.TCP},
		SaddrIn{pods},
		DaddrIn{pods},
		SetEtherDaddr{mac},
		SetToHost{},
		Counter{},
	}
}

// FamilyOf returns the family of an address.
func FamilyOf(ip netip.Addr) Family {
	if ip.Is6() {
		return IPv6
	}
	return IPv4
}
