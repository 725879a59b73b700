package capture

import (
	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// Serves are the families (ip, ip6) of which gridmesh has frontends in force in this
// network, whoever wrote them.
func Serves() (families []string, err error) {
	conn := nft.Open()
	defer conn.Close()
	names := map[rules.Family]string{rules.IPv4: "ip", rules.IPv6: "ip6"}
	for _, f := range rules.Families {
		for table, set := range map[string]rules.SetName{rules.Name: rules.Serve, rules.KernelName: rules.Front} {
			has, err := conn.HasElements(&nftables.Set{Table: &nftables.Table{Name: table, Family: nftables.TableFamilyINet}, Name: set.For(f)})
			if err != nil {
				return nil, err
			}
			if has {
				families = append(families, names[f])
				break
			}
		}
	}
	return families, nil
}

// Handed reports whether the rules in force hand new connections to Envoy: there are frontends
// of it, and it is not absent.
func Handed() (bool, error) {
	conn := nft.Open()
	defer conn.Close()
	table := &nftables.Table{Name: rules.Name, Family: nftables.TableFamilyINet}
	if absent, err := conn.HasElements(&nftables.Set{Table: table, Name: rules.Absent}); absent || err != nil {
		return false, err
	}
	for _, f := range rules.Families {
		if has, err := conn.HasElements(&nftables.Set{Table: table, Name: rules.Serve.For(f)}); has || err != nil {
			return has, err
		}
	}
	return false, nil
}

// PutBack sets the sysctls of a node's bridges as they were, while its rules are still in
// force: those of another proxy need them before. What Envoy needs waits for Cleanup.
func PutBack(host Host) error {
	unlock, err := Lock()
	if err != nil {
		return err
	}
	defer unlock()
	return host.sysctls().Restore(EarlyDemux)
}
