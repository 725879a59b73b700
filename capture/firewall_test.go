package capture

import (
	"os/exec"
	"strings"
	"testing"

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
	if _, err := exec.LookPath("iptables-nft"); err != nil {
		t.Skip("SKIPPED: iptables-nft is not installed; it is what writes such rules")
	}
	testkit.NewNetwork(t)
	iptables := func(rule string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "iptables-nft", strings.Fields(rule)...).CombinedOutput(); err != nil {
			t.Skipf("SKIPPED: this kernel does not take %q: %v: %s", rule, err, out)
		}
	}
	for _, rule := range []string{
		"-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT", "-A INPUT -p icmp -j ACCEPT", "-A INPUT -i lo -j ACCEPT",
		"-A INPUT -p tcp -m state --state NEW -m tcp --dport 22 -j ACCEPT", "-A INPUT -p udp -m multiport --dports 53,67 -m comment --comment dns -j ACCEPT",
	} {
		iptables(rule)
	}
	wantFirewall(t, false)
	iptables("-A INPUT -j REJECT --reject-with icmp-host-prohibited")
	wantFirewall(t, true)
	iptables("-I INPUT -m mark --mark 0x1/0x3 -j ACCEPT")
	wantFirewall(t, false)
}
