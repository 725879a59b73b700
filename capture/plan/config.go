package plan

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/gridmesh/gridmesh/internal/ports"
)

// Config is what the operator chose for the capture of one node.
type Config struct {
	// Mark is what captured packets carry, under Mask. Envoy's own packets
	// carry the rest of Mask (Own). Other bits of a packet's mark are kept.
	Mark, Mask uint32
	// Table is the number of the route table that delivers marked packets locally.
	Table int
	// Ports are those of the capture listeners.
	Ports ports.Ports
	// PodCIDRs tell this node's pods from everybody else. Empty: no source is kept.
	PodCIDRs []netip.Prefix
	// ServiceCIDRs are guarded besides those that the cluster names.
	ServiceCIDRs []netip.Prefix
	// KeepBridgeNetfilter leaves bridge-nf-call-iptables as it is, for those
	// whose own rules need it. TCP of pods on a bridge is then redirected.
	KeepBridgeNetfilter bool
	// Kernel turns the kernel path on; nil: there is none.
	Kernel *Kernel
}

// Default is a configuration that meets no known other user of marks.
func Default() Config {
	return Config{Mark: 0x1, Mask: 0x3, Table: 15001, Ports: ports.Default()}
}

// Own is the mark of Envoy's own packets: the bits of Mask that Mark leaves.
func (c Config) Own() uint32 { return c.Mask &^ c.Mark }

// KeepsSource reports whether a client's address is kept.
func (c Config) KeepsSource(client netip.Addr) bool { return Within(c.PodCIDRs, client) }

// Validate names the flag that is wrong.
func (c Config) Validate() error {
	var errs []error
	if c.Mark == 0 || c.Mark&^c.Mask != 0 || c.Own() == 0 {
		errs = append(errs, fmt.Errorf("--mark %#x/%#x: BITS must lie inside MASK and leave a bit of it for Envoy's own packets, as in 0x1/0x3", c.Mark, c.Mask))
	}
	if c.Table < 1 || c.Table > 1<<31-1 || c.Table >= 253 && c.Table <= 255 {
		errs = append(errs, fmt.Errorf("--route-table %d: must be positive and none of 253 to 255, which the kernel uses", c.Table))
	}
	if err := c.Ports.Validate(); err != nil {
		errs = append(errs, err)
	}
	for _, p := range append(slices.Clone(c.PodCIDRs), c.ServiceCIDRs...) {
		if p != p.Masked() {
			errs = append(errs, fmt.Errorf("CIDR %s has bits beyond its length; did you mean %s?", p, p.Masked()))
		}
	}
	for _, p := range c.PodCIDRs {
		for _, s := range c.ServiceCIDRs {
			if p.Overlaps(s) {
				errs = append(errs, fmt.Errorf("--pod-cidr %s and --service-cidr %s overlap", p, s))
			}
		}
	}
	return errors.Join(errs...)
}

// ParseMark reads "BITS/MASK", each decimal or 0x hexadecimal.
func ParseMark(s string) (mark, mask uint32, err error) {
	a, b, found := strings.Cut(s, "/")
	m, errA := strconv.ParseUint(a, 0, 32)
	k, errB := strconv.ParseUint(b, 0, 32)
	if !found || errA != nil || errB != nil || bits.OnesCount32(uint32(k)) < 2 {
		return 0, 0, fmt.Errorf("mark %q is not BITS/MASK with at least two bits in MASK, as in 0x1/0x3", s)
	}
	return uint32(m), uint32(k), nil
}

// Within reports whether an address is in one of the ranges.
func Within(list []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(ip) })
}
