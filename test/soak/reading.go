package soak

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"

	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// reading is the state of a node: facet -> lines, sorted. Two nodes in the
// same state read the same.
type reading map[string][]string

// read reads what a running node has in force.
func read(n *cluster.Node) (reading, error) {
	r := reading{}
	for facet, f := range map[string]func(*cluster.Node) ([]string, error){
		"rules": readRules, "routes": readRoutes, "envoy": readEnvoy, "listeners": readListeners, "files": readFiles,
	} {
		list, err := f(n)
		if err != nil {
			return nil, fmt.Errorf("read %s of %s: %w", facet, n.Name, err)
		}
		slices.Sort(list)
		r[facet] = list
	}
	return r, nil
}

// leftovers are frontends that an Envoy may hold more for than a fresh one, if that leads
// nowhere: it gives nothing back that it once asked for, which is what was dialled, what
// was near stays until nobody used it for preload.WaitIdle, and a UDP listener that was
// opened for as long as its Service has that port.
type leftovers struct{ dialled, near, bound []netip.AddrPort }

// differences are what one reading has and the other has not, but for leftovers.
func differences(r, fresh reading, may leftovers) (list []string) {
	for facet := range fresh {
		for _, line := range r[facet] {
			left := facet == "envoy" && may.leaves(line, r[facet], fresh[facet])
			if !left && !slices.Contains(fresh[facet], line) {
				list = append(list, facet+": a fresh start has not "+short(line))
			}
		}
		for _, line := range fresh[facet] {
			if !slices.Contains(r[facet], line) {
				list = append(list, facet+": a fresh start has "+short(line))
			}
		}
	}
	slices.Sort(list)
	return list
}

func short(line string) string {
	if len(line) > 300 {
		return line[:300] + "…"
	}
	return line
}

// leaves reports whether a resource is such a leftover, which a fresh Envoy does not know
// at all, and without an endpoint.
func (may leftovers) leaves(line string, all, fresh []string) bool {
	name, _, _ := strings.Cut(line, " ")
	has := func(list []string, name string) int {
		return slices.IndexFunc(list, func(l string) bool { return strings.HasPrefix(l, name+" ") })
	}
	_, address, _ := strings.Cut(name, "/")
	udp, listener := strings.CutPrefix(address, "udp-")
	udp, cluster := strings.CutSuffix(udp, "/udp")
	if has(fresh, name) >= 0 {
		return false
	}
	if !listener && !cluster {
		return (contains(may.dialled, address) || contains(may.near, address)) && !strings.Contains(line, `"socket_address"`)
	}
	ends := has(all, "endpoint_config/"+udp+"/udp")
	return contains(may.bound, udp) && ends >= 0 && !strings.Contains(all[ends], `"socket_address"`)
}

func contains(list []netip.AddrPort, address string) bool {
	return slices.ContainsFunc(list, func(to netip.AddrPort) bool { return to.String() == address })
}

// anonymous sets are named by the kernel, in no order.
var anonymous = regexp.MustCompile(`__(set|map)[0-9]+`)

// readRules are the tables, chains, rules, sets and elements of a node.
func readRules(n *cluster.Node) (list []string, err error) {
	conn, err := n.NS.NFT()
	if err != nil {
		return nil, err
	}
	add := func(format string, args ...any) {
		list = append(list, anonymous.ReplaceAllString(fmt.Sprintf(format, args...), "anonymous"))
	}
	tables, err := conn.ListTables()
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		table := fmt.Sprintf("table %d %s", t.Family, t.Name)
		add("%s flags %d", table, t.Flags)
		sets, err := conn.GetSets(t)
		if err != nil {
			return nil, err
		}
		for _, set := range sets {
			elements, err := conn.GetSetElements(set)
			if err != nil {
				return nil, err
			}
			add("%s set %s of %s", table, set.Name, set.KeyType.Name)
			for _, e := range elements {
				if set.Dynamic && set.HasTimeout {
					continue // clients' connections put it there, for a time
				}
				if numbered(set.Name) {
					e.Key = anySlot(e.Key)
				}
				add("%s set %s has %x %x %x %v", table, set.Name, e.Key, e.KeyEnd, e.Val, e.IntervalEnd)
			}
		}
	}
	chains, err := conn.ListChains()
	if err != nil {
		return nil, err
	}
	for _, c := range chains {
		chain := fmt.Sprintf("table %d %s chain %s", c.Table.Family, c.Table.Name, c.Name)
		add("%s %s", chain, asJSON([]any{c.Hooknum, c.Priority, c.Type, c.Policy}))
		rules, err := conn.GetRules(c.Table, c)
		if err != nil {
			return nil, err
		}
		for i, r := range rules {
			add("%s rule %d %s", chain, i, expressions(r))
		}
	}
	return list, nil
}

// numbered reports whether keys of a set end with the number of a slot.
func numbered(set string) bool {
	return strings.HasPrefix(set, "slots") || strings.HasPrefix(set, "names")
}

// anySlot is a key of the kernel path's slots without the number of the slot: who came
// first has the first, and a fresh start knows nothing of that. That the numbers are
// those of the node's own endpoints stays.
func anySlot(key []byte) []byte {
	out := slices.Clone(key)
	if n := len(out) - 4; n >= 0 {
		slot := binary.NativeEndian.Uint32(out[n:])
		binary.NativeEndian.PutUint32(out[n:], slot&^0xffff)
	}
	return out
}

// expressions are a rule's, without what it counted.
func expressions(r *nftables.Rule) string {
	var b strings.Builder
	for _, e := range r.Exprs {
		if _, counter := e.(*expr.Counter); counter {
			b.WriteString("counter ")
			continue
		}
		fmt.Fprintf(&b, "%T%s ", e, asJSON(e))
	}
	return b.String()
}

func asJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// readRoutes are the rules and routes of a node, but those that the kernel
// keeps by itself.
func readRoutes(n *cluster.Node) (list []string, err error) {
	err = n.NS.Do(func() error {
		for _, family := range families {
			rules, err := netlink.RuleList(family)
			if err != nil {
				return err
			}
			for i := range rules {
				list = append(list, fmt.Sprintf("family %d rule %s", family, rules[i].String()))
			}
			routes, err := allRoutes(family)
			if err != nil {
				return err
			}
			for i := range routes {
				if r := &routes[i]; r.Protocol != kernelRoute {
					list = append(list, fmt.Sprintf("family %d route %v via %v link %d table %d type %d", family, r.Dst, r.Gw, r.LinkIndex, r.Table, r.Type))
				}
			}
		}
		return nil
	})
	return list, err
}

// kernelRoute is the protocol of routes that come with addresses (RTPROT_KERNEL).
const kernelRoute = 2

// readEnvoy are the resources that Envoy holds, by kind and name.
func readEnvoy(n *cluster.Node) (list []string, err error) {
	text, err := n.Admin("/config_dump?include_eds")
	if err != nil {
		return nil, err
	}
	var dump struct{ Configs []map[string]any }
	if err := json.Unmarshal([]byte(text), &dump); err != nil {
		return nil, fmt.Errorf("%w in %s", err, short(text))
	}
	for _, config := range dump.Configs {
		for _, kind := range []struct{ list, inside, name string }{
			{"dynamic_active_clusters", "cluster", "name"}, {"dynamic_endpoint_configs", "endpoint_config", "cluster_name"}, {"dynamic_listeners", "active_state", "name"},
		} {
			items, _ := config[kind.list].([]any)
			for _, item := range items {
				m, _ := item.(map[string]any)
				resource := m[kind.inside]
				if resource == nil {
					continue // a listener that drains, which Envoy closes in its time
				}
				inside, _ := resource.(map[string]any)
				name, ok := inside[kind.name]
				if !ok {
					name = m[kind.name]
				}
				list = append(list, fmt.Sprintf("%s/%v %s", kind.inside, name, asJSON(ordered(resource))))
			}
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the Envoy holds nothing: %s", short(text))
	}
	return list, nil
}

// ordered drops what differs from start to start, and puts lists of objects in
// an order.
func ordered(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			// What Envoy has seen of an endpoint's health comes and goes.
			if key != "version_info" && key != "last_updated" && key != "health_status" {
				out[key] = ordered(value)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = ordered(v[i])
		}
		slices.SortFunc(out, func(a, b any) int { return strings.Compare(asJSON(a), asJSON(b)) })
		return out
	}
	return v
}

// readListeners are the TCP sockets that listen on a node.
func readListeners(n *cluster.Node) (list []string, err error) {
	found, err := n.NS.Listening()
	for _, at := range found {
		list = append(list, at.String())
	}
	return list, err
}

// others' are files of a node that are none of gridmesh's.
var othersFiles = []string{"pods", "logs", "host"}

// readFiles are the names of a node's files.
func readFiles(n *cluster.Node) (list []string, err error) {
	err = filepath.WalkDir(n.Dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(n.Dir, path)
		switch {
		case os.IsNotExist(err):
			return nil // a file on its way
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(othersFiles, name):
			return filepath.SkipDir
		case temporary.MatchString(name):
			return nil // compareTemporary counts them
		}
		list = append(list, name)
		return nil
	})
	return list, err
}

// temporary is what a writer that is killed leaves beside its file. A later
// one removes it, when it is old.
var temporary = regexp.MustCompile(`(^|/)\.[^/]+\.tmp-[0-9]+$`)

// compareTemporary holds the temporary files of a node against the programs
// that were killed there: each leaves one at most, and the others none.
func (s *Soak) compareTemporary(node string) error {
	left, err := filepath.Glob(filepath.Join(stateDir(node), ".*.tmp-*"))
	if err != nil {
		return err
	}
	if n := s.killed[node]; len(left) > n {
		return &Violation{Judge: "files", Text: fmt.Sprintf("%d programs were killed on %s, and %d temporary files are left: %v", n, node, len(left), left)}
	}
	return nil
}

// stateOf is the last good state of a node's agent.
func stateOf(n *cluster.Node) (*source.State, error) {
	data, err := os.ReadFile(filepath.Join(n.Dir, edge.AgentState))
	if err != nil {
		return nil, err
	}
	return source.DecodeState(data)
}

// readState is what a node would start again from; its agent has ended.
func readState(n *cluster.Node) ([]string, error) {
	st, err := stateOf(n)
	if err != nil {
		return nil, err
	}
	list := []string{"pod CIDRs " + asJSON(st.PodCIDRs), "service CIDRs " + asJSON(st.Snapshot.ServiceCIDRs)}
	for _, e := range st.Snapshot.Services.All() {
		if e.Service != nil {
			list = append(list, "service "+asJSON(e.Service))
		}
		for _, slice := range e.Slices {
			list = append(list, "slice "+asJSON(slice))
		}
	}
	for _, node := range st.Snapshot.Nodes.All() {
		list = append(list, "node "+asJSON(node))
	}
	slices.Sort(list)
	return list, nil
}

// hasCapture reports what of gridmesh's is left in the kernel of a node.
func hasCapture(ns *netlab.NS) error {
	conn, err := ns.NFT()
	if err != nil {
		return err
	}
	tables, err := conn.ListTables()
	if err != nil {
		return err
	}
	for _, t := range tables {
		if strings.HasPrefix(t.Name, "gridmesh") {
			return fmt.Errorf("table %s is left", t.Name)
		}
	}
	return ns.Do(func() error {
		for _, family := range families {
			rules, err := netlink.RuleList(family)
			if err != nil {
				return err
			}
			for i := range rules {
				if rules[i].Mark != 0 {
					return fmt.Errorf("rule %s is left", rules[i].String())
				}
			}
		}
		return nil
	})
}
