// Package ports says on which ports the capture hands TCP connections to
// Envoy: the rules lead there and Envoy's constant listeners wait there.
package ports

import "fmt"

// reserved ports belong to the capture, used or not.
const reserved = 9

// Ports are the ports of one node's capture listeners.
type Ports struct {
	Base uint16 // the first one
}

// Default starts where nothing well known listens.
func Default() Ports { return Ports{Base: 15001} }

// Keep is where tproxy leads connections whose client's address is kept.
func (p Ports) Keep() uint16 { return p.Base }

// Plain is where tproxy leads those that go on with the node's own address.
func (p Ports) Plain() uint16 { return p.Base + 1 }

// RedirectKeep is Keep for connections that come by NAT: from pods on a
// bridge whose netfilter stays on.
func (p Ports) RedirectKeep() uint16 { return p.Base + 2 }

// RedirectPlain is Plain for connections that come by NAT.
func (p Ports) RedirectPlain() uint16 { return p.Base + 3 }

// Health is where Envoy says on loopback that it serves: the last of those
// that are reserved.
func (p Ports) Health() uint16 { return p.Base + reserved - 1 }

// All are the ports that belong to the capture, used or not.
func (p Ports) All() (list []uint16) {
	for i := range uint16(reserved) {
		list = append(list, p.Base+i)
	}
	return list
}

// Validate names the flag that is wrong.
func (p Ports) Validate() error {
	const last = 65535 - reserved + 1
	if p.Base < 1 || p.Base > last {
		return fmt.Errorf("--listen-port-base %d: must be between 1 and %d", p.Base, last)
	}
	return nil
}
