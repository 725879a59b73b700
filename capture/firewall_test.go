package capture

import (
	"encoding/binary"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// Where a firewall refuses captured packets in INPUT, by its policy or by its last rule, that
// is found; not where it lets them in, or may, or refuses others.
func TestFirewalls(t *testing.T) {
	t.Parallel()
	const base, rest = "type filter hook input priority 0; policy accept;", "reject with icmpx admin-prohibited"
	firewalld := func(zones string) string {
		return `table inet firewalld {
			chain filter_IN_trusted { accept; }
			chain filter_IN_public_allow { tcp dport 22 ct state new,untracked accept; tcp dport { 80, 443 } accept; ip6 daddr fe80::/64 udp dport 546 accept; }
			chain filter_IN_public { jump filter_IN_public_allow; meta l4proto { icmp, ipv6-icmp } accept; }
			chain filter_INPUT_ZONES { ` + zones + `; iifname "eth0" goto filter_IN_public; goto filter_IN_public; }
			chain filter_INPUT { type filter hook input priority filter + 10; policy accept;
				ct state { established, related } accept; ct status dnat accept; iifname "lo" accept;
				jump filter_INPUT_ZONES; ct state invalid drop; ` + rest + `; }
		}`
	}
	for name, tc := range map[string]struct {
		rules string
		found bool
	}{
		"firewalld":                         {firewalld("ip saddr 192.0.2.0/24 goto filter_IN_trusted"), true},
		"firewalld that trusts the pods":    {firewalld("ip saddr 10.244.0.0/16 goto filter_IN_trusted"), false},
		"firewalld that may":                {firewalld(`iifname "cni0" goto filter_IN_trusted`), false},
		"a last rule":                       {"table ip f { chain in { " + base + " ct state established,related accept; ip protocol icmp accept; tcp dport 22 accept; counter log prefix \"no \" drop; } }", true},
		"by IPv6":                           {"table ip6 f { chain in { " + base + " meta l4proto ipv6-icmp accept; tcp dport 22-80 accept; reject; } }", true},
		"a policy":                          {"table inet f { chain in { type filter hook input priority 0; policy drop; ct state established accept; } }", true},
		"a policy, and the cure":            {"table inet f { chain in { type filter hook input priority 0; policy drop; meta mark & 0x3 == 0x1 accept; } }", false},
		"a last rule, and the cure":         {"table inet f { chain in { " + base + " meta mark & 0x3 == 0x1 accept; drop; } }", false},
		"the mark of others":                {"table inet f { chain in { " + base + " meta mark & 0x10000 == 0x10000 accept; drop; } }", true},
		"the pods' range":                   {"table inet f { chain in { " + base + " ip saddr 10.244.0.0/24 accept; drop; } }", false},
		"a set that may have it":            {"table inet f { set s { type ipv4_addr; } chain in { " + base + " ip saddr @s accept; drop; } }", false},
		"all is accepted before":            {"table inet f { chain in { " + base + " accept; drop; } }", false},
		"all leave before":                  {"table inet f { chain in { " + base + " return; drop; } }", false},
		"a chain below refuses all":         {"table inet f { chain no { drop; } chain in { " + base + " jump no; } }", true},
		"one that refuses others":           {"table inet f { chain in { " + base + " ip saddr 192.0.2.0/24 drop; tcp dport 23 drop; } }", false},
		"all but lo":                        {"table inet f { chain in { " + base + ` iifname != "lo" drop; } }`, true},
		"some may leave before":             {"table inet f { chain in { " + base + ` iifname "cni0" return; drop; } }`, false},
		"some may leave, to be refused":     {"table inet f { chain c { " + `iifname "cni0" return; drop; } chain in { ` + base + " jump c; drop; } }", true},
		"all but lo, by its number":         {"table inet f { chain in { " + base + " iif != lo drop; } }", true},
		"all that begins like lo":           {"table inet f { chain in { " + base + ` iifname "lo*" accept; drop; } }`, false},
		"a mark that is set":                {"table inet f { chain marks { meta mark set meta mark | 0x10000; } chain in { " + base + " jump marks; meta mark & 0x10000 == 0x10000 accept; drop; } }", false},
		"a mark that is restored":           {"table inet f { chain in { " + base + " meta mark set ct mark; meta mark 0x10000 accept; drop; } }", false},
		"a mark that others get":            {"table inet f { chain in { " + base + " udp dport 53 meta mark set 0x10000; meta mark & 0x10000 == 0x10000 accept; drop; } }", true},
		"a mark that is set, and refused":   {"table inet f { chain in { " + base + " meta mark set 0x10000 counter drop; } }", true},
		"a connection's mark that is set":   {"table inet f { chain in { " + base + " ct mark set 0x10000; drop; } }", true},
		"all ports":                         {"table inet f { chain in { " + base + " tcp dport 1-65535 accept; drop; } }", false},
		"the ports of clients":              {"table inet f { chain in { " + base + " tcp sport >= 1024 accept; drop; } }", false},
		"a range of clients' ports":         {"table inet f { chain in { " + base + " tcp sport 1024-65535 accept; drop; } }", false},
		"a set of clients' ports":           {"table inet f { chain in { " + base + " tcp sport { 53, 1024-65535 } accept; drop; } }", false},
		"a set of all ports":                {"table inet f { chain in { " + base + " tcp dport { 0, 1-65535 } accept; drop; } }", false},
		"flags of a beginning":              {"table inet f { chain in { " + base + " tcp flags & (fin|syn|rst|ack) == syn accept; drop; } }", false},
		"protocol and source":               {"table inet f { chain in { " + base + " meta l4proto . ip saddr { tcp . 10.244.0.0/16 } accept; drop; } }", false},
		"an interface":                      {"table inet f { chain in { " + base + ` iifname "eth0" drop; } }`, false},
		"some of many":                      {"table inet f { chain in { " + base + " limit rate over 10/second drop; } }", false},
		"a verdict map of states":           {"table inet f { chain in { " + base + " ct state vmap { established : accept, related : accept, invalid : drop }; drop; } }", true},
		"a verdict map of interfaces":       {"table inet f { chain in { " + base + ` iifname vmap { "lo" : accept, "cni0" : accept }; drop; } }`, false},
		"at another hook":                   {"table inet f { chain out { type filter hook output priority 0; policy accept; ct state invalid drop; drop; } }", false},
		"chains that call each other twice": {"table inet f { chain b { tcp dport 1 accept; } chain a { jump b; jump b; } chain in { " + base + " jump a; jump a; drop; } }", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.NewNetwork(t)
			nftCommand(t, strings.ReplaceAll(tc.rules, "; }", ";\n}\n"), "-f", "-")
			wantFirewall(t, tc.found)
		})
	}
}

// A list of whom to refuse holds nobody up, however long it is: a start waited for minutes
// with 100,000 ranges that ten rules ask, before its guard. What lies behind it is found.
func TestALongListOfWhomToRefuse(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	nftCommand(t, "table inet f {\nset whom { type ipv4_addr; flags interval; }\nchain in { type filter hook input priority 0; policy drop;\n"+
		strings.Repeat("ip saddr @whom tcp dport 22 drop\n", 10)+"}\n}\n", "-f", "-")
	conn := nft.Open()
	defer conn.Close()
	set := &nftables.Set{Table: &nftables.Table{Name: "f", Family: nftables.TableFamilyINet}, Name: "whom", KeyType: nftables.TypeIPAddr, Interval: true}
	for i := range uint32(20_000) {
		begin := 11<<24 + i<<8
		must(t, conn.SetAddElements(set, []nftables.SetElement{
			{Key: binary.BigEndian.AppendUint32(nil, begin)}, {Key: binary.BigEndian.AppendUint32(nil, begin+128), IntervalEnd: true},
		}))
		if i%200 == 199 {
			must(t, conn.Flush())
		}
	}
	whole, took := time.Hour, time.Hour // the fastest of a few, for others use the cores
	n := 0
	for range 3 {
		begin := time.Now()
		all, err := conn.Elements(set)
		whole, n = min(whole, time.Since(begin)), len(all)
		must(t, err)
		begin = time.Now()
		wantFirewall(t, true)
		took = min(took, time.Since(begin))
	}
	t.Logf("to look took %s, to read the list of %d once %s", took, n, whole)
	if took > whole {
		t.Errorf("to look took %s, as long as to read the list of %d: %s", took, n, whole)
	}
}

func wantFirewall(t *testing.T, want bool) {
	t.Helper()
	found, err := inspectNow(t)
	must(t, err)
	if (len(found) == 1 && found[0].Kind == InputDrop && strings.Contains(found[0].Text, "gridmesh's mark")) != want || !want && len(found) > 0 {
		t.Errorf("found %v, want a firewall: %v", found, want)
	}
}

// So it is with iptables, whose extensions are not nftables' own.
func TestFirewallOfIptables(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	for _, rule := range []string{
		"-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT", "-A INPUT -p icmp -j ACCEPT", "-A INPUT -i lo -j ACCEPT",
		"-A INPUT -p tcp -m state --state NEW -m tcp --dport 22 -j ACCEPT", "-A INPUT -p udp -m multiport --dports 53,67 -m comment --comment dns -j ACCEPT",
	} {
		iptables(t, rule)
	}
	wantFirewall(t, false)
	iptables(t, "-A INPUT -j REJECT --reject-with icmp-host-prohibited")
	wantFirewall(t, true)
	iptables(t, "-I INPUT -m mark --mark 0x1/0x3 -j ACCEPT")
	wantFirewall(t, false)
}

// What an extension of iptables may decide, or may change, lets packets in.
func TestFirewallOfIptablesMay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		rule  string
		found bool
	}{
		"nothing":           {"-A INPUT -j LOG", true},
		"a program decides": {"-A INPUT -j NFQUEUE --queue-num 1", false},
		"a mark":            {"-A INPUT -j MARK --set-mark 0x10000", false},
		"a mark restored":   {"-A INPUT -j CONNMARK --restore-mark", false},
		"a limit's proxy":   {"-A INPUT -p tcp -m conntrack --ctstate NEW -j SYNPROXY", false},
		"all ports but one": {"-A INPUT -p tcp -m tcp ! --dport 22 -j ACCEPT", false},
		"all but some":      {"-A INPUT -p tcp -m multiport ! --dports 22,23 -j ACCEPT", false},
		"all ports":         {"-A INPUT -p tcp -m multiport --dports 1:65535 -j ACCEPT", false},
		"clients' ports":    {"-A INPUT -p tcp -m tcp --sport 1024:65535 -j ACCEPT", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.NewNetwork(t)
			for _, rule := range []string{tc.rule, "-A INPUT -m mark --mark 0x10000/0x10000 -j ACCEPT", "-A INPUT -j REJECT"} {
				iptables(t, rule)
			}
			wantFirewall(t, tc.found)
		})
	}
}

// iptables writes one rule.
func iptables(t *testing.T, rule string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "iptables-nft", strings.Fields(rule)...).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: %q is not taken here: %v: %s", rule, err, out)
	}
}

// What common firewalls come with, and what is usually written into them: what is found
// is what becomes of a pod's packet.
func TestFirewallsAsTheyCome(t *testing.T) {
	t.Parallel()
	const open, closed = "type filter hook input priority filter;", "type filter hook input priority filter; policy drop;"
	const states = " ct state vmap { established : accept, related : accept, invalid : drop };"
	in := func(rules string) string {
		return "table inet filter { chain input { " + closed + states + rules + "; } }"
	}
	for name, tc := range map[string]struct {
		rules string
		found bool
	}{
		"Debian, as installed": {"table inet filter { chain input { " + open + " } }", false},
		"Debian, a workstation": {"table inet filter { chain input { " + open + ` iif lo accept; ct state established,related accept;
			meta nfproto ipv6 icmpv6 type { destination-unreachable, echo-request, nd-router-advert, nd-neighbor-solicit, 148, 149 } accept;
			ip6 saddr fe80::/10 icmpv6 type { 130, 131, 132, 143, 151, 152, 153 } accept; counter drop; } }`, true},
		"Arch": {"table inet filter { chain input { " + closed + ` ct state invalid drop; ct state { established, related } accept; iif lo accept;
			ip protocol icmp accept; meta l4proto ipv6-icmp accept; tcp dport 22 accept;
			pkttype host limit rate 5/second counter reject with icmpx type admin-prohibited; counter; } }`, true},
		"chains by protocol": {`table inet filter { chain TCP { tcp dport { 22, 443 } accept; } chain UDP { udp dport 53 accept; }
			chain input { ` + closed + ` ct state related,established accept; iif lo accept; ct state invalid drop;
			meta l4proto udp ct state new jump UDP; tcp flags & (fin|syn|rst|ack) == syn ct state new jump TCP;
			meta l4proto tcp reject with tcp reset; counter reject; } }`, true},
		"a router": {`table inet filter {
			chain world { icmp type echo-request limit rate 5/second accept; ip saddr 192.0.2.0/24 tcp dport 22 accept; }
			chain private { icmp type echo-request limit rate 5/second accept; ip protocol . th dport vmap { tcp . 22 : accept, udp . 53 : accept, tcp . 53 : accept }; }
			chain input { ` + closed + states + ` iifname vmap { "lo" : accept, "eth0" : jump world, "eth1" : jump private }; } }`, true},
		"a router that trusts its own": {in(`iifname vmap { "lo" : accept, "eth0" : drop, "cni0" : accept }`), false},
		"lo in a verdict map":          {in(`iifname vmap { "lo" : accept }`), true},
		"lo in one of numbers":         {in("iif vmap { lo : accept }"), true},
		"lo in a set":                  {"table inet filter { set own { type ifname; elements = { lo }; } chain input { " + closed + " iifname @own accept; } }", true},
		"the loopback's type":          {in("meta iiftype loopback accept"), true},
		"another type":                 {in("meta iiftype ether accept"), false},
		"the host's addresses":         {in("fib daddr type local accept"), true},
		"the others' addresses":        {in("fib daddr type { local, broadcast, multicast } accept; fib daddr type != local drop"), true},
		"the net's addresses":          {in("fib daddr type unicast accept"), false},
		"groups":                       {in("ip daddr 224.0.0.0/4 accept; ip6 daddr ff00::/8 accept; meta pkttype { broadcast, multicast } accept; ip protocol igmp accept"), true},
		"an address of the host":       {in("ip daddr 192.0.2.1 accept; ip6 daddr fd00::1 accept"), true},
		"the Services' addresses":      {in("ip daddr 10.96.0.0/16 accept"), false},
		"some at a time":               {in("ct state new limit rate 10/second accept"), false},
		"a flood":                      {in("ct state new limit rate over 10/second drop; tcp dport 22 accept"), true},
		"other networks":               {in("ip saddr { 192.0.2.0/24, 198.51.100.7 } accept; ip6 saddr { 2001:db8::/64 } accept"), true},
		"the pods' network":            {in("ip saddr { 10.244.0.0/16, 192.0.2.0/24 } accept"), false},
		"one of the pods":              {in("ip saddr { 192.0.2.1, 10.244.0.5 } accept"), false},
		"all the rest of TCP":          {"table inet filter { chain input { " + open + " meta l4proto { tcp, udp } drop; } }", true},
		"a counter with a name":        {"table inet filter {\ncounter no { }\nchain input { " + open + " counter name \"no\" drop; } }", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := testkit.NewNetwork(t)
			pod := addPod(t, node)
			cfg := config()
			c := starting(t, cfg, testHost(t))
			apply(t, c, newCluster().serve("web", "10.96.0.1", "10.244.0.5").view(), false)
			defer listen(t, cfg)()
			nftCommand(t, strings.ReplaceAll(tc.rules, "; }", ";\n}\n"), "-f", "-")
			wantFirewall(t, tc.found)
			wantServed(t, pod, !tc.found)
		})
	}
}

// wantServed dials a Service from a pod.
func wantServed(t *testing.T, pod *testkit.Network, want bool) {
	t.Helper()
	patience := 10 * time.Second
	if !want {
		patience = 300 * time.Millisecond // silence is what is waited for
	}
	must(t, pod.Do(func() error {
		conn, err := net.DialTimeout("tcp", web, patience)
		if err == nil {
			_ = conn.Close()
		}
		if (err == nil) != want {
			t.Errorf("served: %v, want %v: %v", err == nil, want, err)
		}
		return nil
	}))
}
