package nodelocal

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
)

// Cleanup takes IPv4 addresses of ours from lo, and the given ones, and says which
// were there. Where one of the given cannot be nodelocal's, nothing is taken away:
// the host needs those of its own (127.0.0.1, ::1); nor is where somebody answers at one.
func Cleanup(given []netip.Addr) (gone []netip.Addr, err error) {
	for _, ip := range given {
		if !usable(ip) {
			return nil, fmt.Errorf("%s is not removed from lo: %w, as in the Corefile", ip, ErrAddress)
		}
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, fmt.Errorf("find lo: %w", err)
	}
	all, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	ours := map[netip.Addr]*netlink.Addr{}
	elsewhere := map[netip.Addr]bool{}
	for i := range all {
		ip, _ := netip.AddrFromSlice(all[i].IP)
		switch ip = ip.Unmap(); {
		case all[i].LinkIndex != lo.Attrs().Index:
			elsewhere[ip] = true
		case all[i].Label == marker || slices.Contains(given, ip):
			ours[ip] = &all[i]
		}
	}
	if err := answered(ours, elsewhere); err != nil {
		return nil, err
	}
	var errs []error
	for ip, addr := range ours {
		if err := netlink.AddrDel(lo, addr); err != nil {
			errs = append(errs, fmt.Errorf("remove %s from lo: %w%s", ip, err, hint(err)))
			continue
		}
		gone = append(gone, ip)
	}
	slices.SortFunc(gone, netip.Addr.Compare)
	return gone, errors.Join(errs...)
}

// answered fails where a process answers at an address that nothing but lo has.
func answered(ours map[netip.Addr]*netlink.Addr, elsewhere map[netip.Addr]bool) error {
	all, err := servers(0)
	if err != nil {
		return nil //nolint:nilerr // a kernel that does not tell is no reason to leave them
	}
	for _, s := range all {
		if ours[s.Local.Addr()] != nil && !elsewhere[s.Local.Addr()] {
			return fmt.Errorf("a process of this node answers at %s: if that is gridmesh-dns, it would put the address back within %s, so stop it first; others (%s) would be without it",
				s.Local, lookEvery, suspects)
		}
	}
	return nil
}
