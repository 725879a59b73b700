package kubeproxy

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture/dump"
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
	// services and refused are the maps in Table that have the frontends, with and without endpoints.
	services, refused = "service-ips", "no-endpoint-services"
	// dispatch is a chain of Table that leads to its others.
	dispatch = "nat-prerouting"
)

// Rules are those of kube-proxy in a network, live or left over.
type Rules struct {
	Nftables []string `json:"nftables,omitempty"` // families (ip, ip6) that have its table
	Iptables []string `json:"iptables,omitempty"` // families that have its chains in the tables of iptables
	Old      []string `json:"old,omitempty"`      // commands of the old iptables that hold its chains: nobody here can remove them
	IPVS     bool     `json:"ipvs,omitempty"`     // it owns ClusterIPs as addresses of the node
	// Written is another where all of it was written anew, as kube-proxy does when it
	// starts: iptables and nftables number their rules.
	Written string `json:"-"`
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

// families are those that kube-proxy writes for, and what it calls them.
var families = []struct {
	name   string
	family nftables.TableFamily
	label  string
}{{"ip", nftables.TableFamilyIPv4, "IPv4"}, {"ip6", nftables.TableFamilyIPv6, "IPv6"}}

// FamiliesText names families (ip, ip6) in words; "" for none.
func FamiliesText(list []string) string {
	var names []string
	for _, f := range families {
		if slices.Contains(list, f.name) {
			names = append(names, f.label)
		}
	}
	return strings.Join(names, " and ")
}

// Look reads what is there. It asks for single things, and so costs the same whatever
// there is, and whoever writes meanwhile.
func Look() (Rules, error) { return look(net.Interfaces) }

func look(links func() ([]net.Interface, error)) (r Rules, err error) {
	conn := nft.Open()
	defer conn.Close()
	var errs []error
	for _, f := range families {
		for _, of := range []struct {
			table, chain string
			found        *[]string
		}{{Table, dispatch, &r.Nftables}, {"nat", Chain, &r.Iptables}} {
			t := &nftables.Table{Name: of.table, Family: f.family}
			there, err := conn.HasTable(t)
			if there && of.table != Table {
				there, err = conn.HasChain(t, of.chain)
			}
			errs = append(errs, err)
			if !there {
				continue
			}
			*of.found = append(*of.found, f.name)
			first, err := conn.FirstRule(t, of.chain)
			errs = append(errs, err)
			r.Written += fmt.Sprintf("%s %s %d;", f.name, of.table, first)
		}
	}
	for _, old := range Old("/proc/thread-self/net") {
		if old.Holds {
			r.Old = append(r.Old, old.Command)
		}
		errs = append(errs, old.Unread)
	}
	all, err := links()
	if err != nil {
		errs = append(errs, fmt.Errorf("is there a link %s: %w", Link, err))
	}
	r.IPVS = slices.ContainsFunc(all, func(l net.Interface) bool { return l.Name == Link })
	return r, errors.Join(errs...)
}

// Serving are the families (ip, ip6) for which kube-proxy has frontends in force, live or
// left over: it writes all of them at once, after it has heard of all Services. One that
// is refused for want of endpoints is one.
func Serving() (list []string, err error) {
	conn := nft.Open()
	defer conn.Close()
	var errs []error
	for _, f := range families {
		serves, err := serving(conn, f.family)
		if errs = append(errs, err); serves {
			list = append(list, f.name)
		}
	}
	return list, errors.Join(errs...)
}

func serving(conn *nft.Session, family nftables.TableFamily) (bool, error) {
	for _, set := range []string{services, refused} {
		has, err := conn.HasElements(&nftables.Set{Table: &nftables.Table{Name: Table, Family: family}, Name: set})
		if has || err != nil {
			return has, err
		}
	}
	leads := false
	err := conn.EachJump(&nftables.Table{Name: "nat", Family: family}, Chain, func(j nft.Jump) bool {
		leads = ofService(j.To)
		return !leads
	})
	if leads || err != nil && !errors.Is(err, dump.ErrTorn) { // a torn list is asked for again, by who waits
		return leads, err
	}
	// In table filter that chain has but what is refused.
	first, err := conn.FirstRule(&nftables.Table{Name: "filter", Family: family}, Chain)
	return first > 0, err
}
