package kubeproxy

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture/nft"
)

// Names of kube-proxy's.
const (
	// Table is its table in the mode nftables, of the families ip and ip6.
	Table = "kube-proxy"
	// Chain is in table nat in the mode iptables, and leads to all others.
	Chain = "KUBE-SERVICES"
	// Link is what it owns ClusterIPs by in the mode ipvs.
	Link = "kube-ipvs0"
	// services is the map in Table that has the frontends.
	services = "service-ips"
)

// Rules are those of kube-proxy in a network, live or left over.
type Rules struct {
	Nftables []string `json:"nftables,omitempty"` // families (ip, ip6) that have its table
	Iptables []string `json:"iptables,omitempty"` // families that have its chains in the tables of iptables
	Old      []string `json:"old,omitempty"`      // commands of the old iptables that hold its chains: nobody here can remove them
	IPVS     bool     `json:"ipvs,omitempty"`     // it owns ClusterIPs as addresses of the node
	// Serves are the families for which it has frontends in force: it writes all of
	// them at once, after it has heard of all Services.
	Serves []string `json:"serves,omitempty"`
}

// None reports whether nothing of kube-proxy is there.
func (r Rules) None() bool {
	return len(r.Nftables)+len(r.Iptables)+len(r.Old) == 0 && !r.IPVS
}

// Mode is kube-proxy's own word for how it serves; "" for none.
func (r Rules) Mode() string {
	var modes []string
	if len(r.Nftables) > 0 {
		modes = append(modes, "nftables")
	}
	if len(r.Iptables)+len(r.Old) > 0 {
		modes = append(modes, "iptables")
	}
	if r.IPVS {
		modes = append(modes, "ipvs")
	}
	return strings.Join(modes, " and ")
}

// Stays reports whether there is something that Remove leaves.
func (r Rules) Stays() bool { return len(r.Old) > 0 || r.IPVS }

// Text names what is there, for people.
func (r Rules) Text() string {
	var list []string
	for _, f := range r.Nftables {
		list = append(list, fmt.Sprintf("nftables table %s %s", f, Table))
	}
	for _, f := range r.Iptables {
		list = append(list, fmt.Sprintf("chains KUBE-* of iptables (%s)", f))
	}
	for _, command := range r.Old {
		list = append(list, "chains KUBE-* of "+command)
	}
	if r.IPVS {
		list = append(list, "link "+Link)
	}
	return strings.Join(list, ", ")
}

// families are those that kube-proxy writes for.
var families = []struct {
	name   string
	family nftables.TableFamily
}{{"ip", nftables.TableFamilyIPv4}, {"ip6", nftables.TableFamilyIPv6}}

// Look reads what is there. It asks for single things, whatever else others have.
func Look() (Rules, error) {
	conn := nft.Open()
	defer conn.Close()
	var r Rules
	var errs []error
	for _, f := range families {
		tables, err := conn.ListTablesOfFamily(f.family)
		if err != nil {
			errs = append(errs, fmt.Errorf("list nftables tables of %s: %w", f.name, err))
			continue
		}
		for _, t := range tables {
			switch t.Name {
			case Table:
				r.Nftables = append(r.Nftables, f.name)
				serves, err := fills(conn, t)
				errs = append(errs, err)
				r.serve(f.name, serves)
			case "nat":
				there, err := conn.HasChain(t, Chain)
				errs = append(errs, err)
				if !there {
					continue
				}
				r.Iptables = append(r.Iptables, f.name)
				serves, err := leads(conn, t)
				errs = append(errs, err)
				r.serve(f.name, serves)
			}
		}
	}
	for _, old := range Old("/proc/thread-self/net") {
		if old.Holds {
			r.Old = append(r.Old, old.Command)
		}
		errs = append(errs, old.Unread)
	}
	_, err := net.InterfaceByName(Link)
	r.IPVS = err == nil
	return r, errors.Join(errs...)
}

func (r *Rules) serve(family string, serves bool) {
	if serves {
		r.Serves = append(r.Serves, family)
	}
}

// fills reports whether the map of frontends has any.
func fills(conn *nft.Session, t *nftables.Table) (bool, error) {
	list, err := conn.ElementsUpTo(&nftables.Set{Table: t, Name: services}, 1)
	if errors.Is(err, nft.ErrMany) {
		return true, nil
	}
	return len(list) > 0, err
}

// leads reports whether the chain of all Services leads to one.
func leads(conn *nft.Session, nat *nftables.Table) (bool, error) {
	jumps, err := conn.Jumps(nat, Chain)
	for _, j := range jumps {
		if ofService(j.To) {
			return true, err
		}
	}
	return false, err
}
