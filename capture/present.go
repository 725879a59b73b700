package capture

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// Present reports whether tables or policy rules of gridmesh are in this network.
func Present(cfg plan.Config) (bool, error) {
	conn, err := nftables.New()
	if err != nil {
		return false, fmt.Errorf("look for gridmesh's tables: %w", err)
	}
	tables, err := conn.ListTables()
	if err != nil {
		return false, fmt.Errorf("look for gridmesh's tables: %w", err)
	}
	for _, t := range tables {
		if t.Name == rules.Name {
			return true, nil
		}
	}
	for _, f := range []netFamily{inet4, inet6} {
		list, err := netlink.RuleList(f.family)
		if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) {
			continue // the kernel has no such family
		}
		if err != nil {
			return false, fmt.Errorf("look for gridmesh's policy rules: %w", err)
		}
		for i := range list {
			if ours(cfg, &list[i]) {
				return true, nil
			}
		}
	}
	return false, nil
}
