package main

import (
	"fmt"
	"os/exec"
	"strings"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/realnode"
)

// helpers are programs of others, each with Debian's package of it and the tests
// that go without it.
var helpers = []struct{ programs, pkg, tests string }{
	{"dig", "bind9-dnsutils", "what dig asks in pods and on nodes"},
	{"curl", "curl", "what curl asks on nodes"},
	{"nft", "nftables", "rules as nft reads them"},
	{"iptables-legacy ip6tables-legacy", "iptables", "rules of kube-proxy that the old iptables wrote"},
	{"systemd-analyze", "systemd", "systemd's own look at deploy/systemd"},
}

// leftOut says what tests leave out on this machine, and why, a line each.
func leftOut() (lines []string) {
	say := func(what, why string) {
		lines = append(lines, fmt.Sprintf("LEFT OUT: %s: %s", what, strings.ReplaceAll(why, "\n", "; ")))
	}
	for _, h := range helpers {
		var lacks []string
		for _, program := range strings.Fields(h.programs) {
			if _, err := exec.LookPath(program); err != nil {
				lacks = append(lacks, program)
			}
		}
		if len(lacks) > 0 {
			say(h.tests, fmt.Sprintf("%s not found (apt-get install %s)", strings.Join(lacks, ", "), h.pkg))
		}
	}
	if err := edge.MissingForKubeProxy(); err != nil {
		say("tests beside a real kube-proxy", err.Error())
	}
	if err := realnode.Missing(); err != nil {
		say("tests on real nodes (kubelet, containerd)", err.Error())
	}
	return lines
}
