package capture

import (
	"fmt"

	"github.com/google/nftables"

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
		list, err := ourRules(cfg, f)
		if err != nil && !noFamily(err) {
			return false, fmt.Errorf("look for gridmesh's policy rules: %w", err)
		}
		if len(list) > 0 {
			return true, nil
		}
	}
	return false, nil
}
