package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/gridmesh/gridmesh/dnsplugin/nodelocal"
)

// cleanup is "gridmesh-dns cleanup [ADDRESS...]": it takes the addresses that
// nodelocal put onto lo away.
func cleanup(args []string) int {
	var list []netip.Addr
	for _, arg := range args {
		ip, err := netip.ParseAddr(arg)
		if err != nil {
			fmt.Fprintf(os.Stderr, "gridmesh-dns cleanup: %q is no IP address; give those of nodelocal in the Corefile\n", arg)
			return 2
		}
		list = append(list, ip)
	}
	gone, err := nodelocal.Cleanup(list)
	for _, ip := range gone {
		fmt.Printf("removed %s from lo\n", ip)
	}
	switch {
	case errors.Is(err, nodelocal.ErrAddress):
		fmt.Fprintln(os.Stderr, "gridmesh-dns cleanup:", err)
		return 2
	case err != nil:
		fmt.Fprintln(os.Stderr, "gridmesh-dns cleanup:", err)
		return 1
	case len(gone) == 0:
		fmt.Println("no address of gridmesh-dns is on lo; one of IPv6 is known by its name alone, as fd00:6772:6964::53")
	}
	return 0
}
