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
	if err := nodelocal.Cleanup(list); err != nil {
		fmt.Fprintln(os.Stderr, "gridmesh-dns cleanup:", err)
		if errors.Is(err, nodelocal.ErrAddress) {
			return 2
		}
		return 1
	}
	return 0
}
