package answer

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// A rule leaves a pod of this unit out of what the Service's name stands for; it
// moves it to no other unit, and takes its own name from it with strict alone. What
// people are told says so.
func TestRulesRenameNoPod(t *testing.T) {
	const malformed = "not on this node (topologyKeys is malformed: closed to the node itself)"
	keys, b := "site", topology.NewBuilder() // closed to the node itself
	key := topology.ObjectKey{Namespace: "default", Name: "db"}
	s := &topology.Slice{Key: key, Service: "db"}
	for i, node := range []string{"a-0", "a-1", "b-0"} {
		unit, number, _ := strings.Cut(node, "-")
		b.SetNode(&topology.Node{Name: node, Labels: map[string]string{"site": unit}})
		s.Endpoints = append(s.Endpoints, topology.Endpoint{
			Addr: netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), Node: node, Hostname: "db-" + unit + "-" + number, Ready: true,
		})
	}
	b.SetNode(&topology.Node{Name: "a-2", Labels: map[string]string{"site": "a"}})
	b.SetService(&topology.Service{Key: key, Headless: true, GridKey: "site", TopologyKeys: &keys})
	b.SetSlice(s)
	snap := b.Build()
	for _, c := range []struct {
		node, name string
		strict     bool
		addrs      string
		why        string
	}{
		{"a-0", "db", false, "10.1.0.0", "the 1 ready endpoints of this node's unit (site=a); left out of this unit: 1, " + malformed},
		{"a-2", "db", false, "", "the Service's name stands for no endpoint of this node's unit (site=a); left out of this unit: 2, " + malformed},
		{"a-0", "db-1.db", false, "10.1.0.1", "the pod db-a-1 of this node's unit (site=a)"},
		{"a-0", "db-1.db", true, "", "strict hides the pod: " + malformed},
		{"a-0", "db-0.db", true, "10.1.0.0", "the pod db-a-0 of this node's unit (site=a)"},
		{"a-0", "db-2.db", false, "", "no ready endpoint has this name"},
		{"b-0", "db-1.db", false, "", "no such ordinal is ready in this node's unit (site=b), in others it is"},
		{"a-0", "db-a-1.db", false, "10.1.0.1", "the endpoint of this name"},
	} {
		x := New(Config{Strict: c.strict}).Next(topology.See(snap, c.node, topology.Options{}))
		var addrs []string
		for _, ip := range x.Lookup(c.name+".default", A).Addrs {
			addrs = append(addrs, ip.String())
		}
		if got, why := strings.Join(addrs, " "), x.Explain(c.name+".default", A); got != c.addrs || why != c.why {
			t.Errorf("%s from %s, strict %v: %q, %q; want %q, %q", c.name, c.node, c.strict, got, why, c.addrs, c.why)
		}
	}
}

// A name that exists, without what was asked for, is told so.
func TestNoDataIsTold(t *testing.T) {
	b := topology.NewBuilder()
	service := func(name string, ips ...netip.Addr) {
		b.SetService(&topology.Service{
			Key: topology.ObjectKey{Namespace: "default", Name: name}, ClusterIPs: ips,
			Ports: []topology.ServicePort{{Name: "http", Port: 80, Protocol: topology.TCP}},
		})
	}
	service("v4", netip.MustParseAddr("10.96.0.1"))
	service("v6", netip.MustParseAddr("fd00::1"))
	service("none")
	x := New(Config{Services: true}).Next(topology.See(b.Build(), "a", topology.Options{}))
	for _, c := range []struct {
		name  string
		qtype Type
		want  string
	}{
		{"v4", A, "the Service's ClusterIP"},
		{"v4", AAAA, "NODATA: none of IPv6, but of IPv4: the Service's ClusterIP"},
		{"v4", Other, "NODATA: none of this type, but of IPv4: the Service's ClusterIP"},
		{"v6", A, "NODATA: none of IPv4, but of IPv6: the Service's ClusterIP"},
		{"_http._tcp.v6", A, "NODATA: none of IPv4, but of IPv6: port http/tcp of the Service's ClusterIP"},
		{"v6", SRV, "the ports of the Service's ClusterIP"},
		{"none", A, "NODATA: the Service has no ClusterIP yet"},
		{"none", AAAA, "NODATA: the Service has no ClusterIP yet"},
	} {
		if why := x.Explain(c.name+".default", c.qtype); why != c.want {
			t.Errorf("%s %d: %q, want %q", c.name, c.qtype, why, c.want)
		}
	}
}

// Of a port's name it is told which port, of whom, and where there is none which there
// are.
func TestPortsAreTold(t *testing.T) {
	b, keys := topology.NewBuilder(), `["site"]`
	b.SetNode(&topology.Node{Name: "a-1", Labels: map[string]string{"site": "a"}})
	ports := []topology.ServicePort{{Name: "http", Port: 80, Protocol: topology.TCP}, {Name: "dns", Port: 53, Protocol: topology.UDP}}
	web, db, none := topology.ObjectKey{Namespace: "default", Name: "web"}, topology.ObjectKey{Namespace: "default", Name: "db"}, topology.ObjectKey{Namespace: "default", Name: "none"}
	b.SetService(&topology.Service{Key: web, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, Ports: ports})
	b.SetService(&topology.Service{Key: db, Headless: true, GridKey: "site", TopologyKeys: &keys})
	b.SetService(&topology.Service{Key: none, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.2")}})
	for i, name := range []string{"sql", "admin"} {
		b.SetSlice(&topology.Slice{
			Key: topology.ObjectKey{Namespace: "default", Name: name}, Service: "db", Ports: []topology.SlicePort{{Name: name, Port: 5432, Protocol: topology.TCP}},
			Endpoints: []topology.Endpoint{{Addr: netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), Node: "a-1", Hostname: "db-a-" + name, Ready: true}},
		})
	}
	x := New(Config{Services: true}).Next(topology.See(b.Build(), "a-1", topology.Options{}))
	for _, c := range []struct {
		name  string
		qtype Type
		want  string
	}{
		{"_http._tcp.web", SRV, "port http/tcp of the Service's ClusterIP"},
		{"_dns._udp.web", A, "port dns/udp of the Service's ClusterIP"},
		{"_http._udp.web", SRV, "the Service has no port http/udp; it has dns/udp, http/tcp"},
		{"_http._tcp.none", SRV, "the Service has no port http/tcp; it has none at all"},
		{"_sql._tcp.db", SRV, "port sql/tcp of the 2 ready endpoints of this node's unit (site=a), where they have it"},
		{"_http._tcp.db", SRV, "none of the 2 ready endpoints of this node's unit (site=a) has a port http/tcp; they have admin/tcp, sql/tcp"},
		{"_http.web", SRV, "a port has two labels before the Service: _http._tcp or _http._udp"},
		{"db", SRV, "the ports of the 2 ready endpoints of this node's unit (site=a)"},
		{"db-a-sql.db", SRV, "the ports of the endpoint of this name"},
	} {
		if why := x.Explain(c.name+".default", c.qtype); why != c.want {
			t.Errorf("%s %d: %q, want %q", c.name, c.qtype, why, c.want)
		}
	}
}

// Endpoints that a name falls back to are not told as the unit's own.
func TestFallbackIsTold(t *testing.T) {
	key := topology.ObjectKey{Namespace: "default", Name: "db"}
	for _, c := range []struct {
		keys, node string
		reading    topology.Reading
		want       string
	}{
		{`["site","*"]`, "a", topology.Ordered, "the 1 ready endpoints of this node's unit (site=a)"},
		{`["site","*"]`, "b", topology.Ordered, "the 2 ready endpoints of others, for this node's unit (site=b) has none"},
		{`["site","*"]`, "a", topology.Union, "the 2 ready endpoints of this node's unit (site=a), and of others"},
		{`["site"]`, "b", topology.Ordered, "this node's unit (site=b) has no ready endpoint of the Service, others have"},
	} {
		b := topology.NewBuilder()
		s := &topology.Slice{Key: key, Service: "db"}
		for i, unit := range []string{"a", "c", "b"} {
			b.SetNode(&topology.Node{Name: unit, Labels: map[string]string{"site": unit}})
			s.Endpoints = append(s.Endpoints, topology.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), Node: unit, Ready: unit != "b"})
		}
		b.SetService(&topology.Service{Key: key, Headless: true, GridKey: "site", TopologyKeys: &c.keys})
		b.SetSlice(s)
		x := New(Config{}).Next(topology.See(b.Build(), c.node, topology.Options{Reading: c.reading}))
		if why := x.Explain("db.default", A); why != c.want {
			t.Errorf("%s %s from %s: %q, want %q", c.keys, c.reading, c.node, why, c.want)
		}
	}
}
