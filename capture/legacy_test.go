package capture

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

// without takes a capability from the thread of the test, which ends with it.
func without(t *testing.T, capability uint) {
	t.Helper()
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	must(t, unix.Capget(&head, &data[0]))
	data[capability/32].Effective &^= 1 << (capability % 32)
	must(t, unix.Capset(&head, &data[0]))
}

// Rules that the old iptables wrote are found with the capabilities that the
// agent has in deploy/.
func TestLegacyRulesOfKubeProxyAreFound(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	for _, command := range []string{"iptables-legacy", "ip6tables-legacy"} {
		out, err := exec.CommandContext(t.Context(), command, "-t", "nat", "-N", "KUBE-SERVICES").CombinedOutput()
		if err != nil {
			t.Skipf("SKIPPED: no rules of the old iptables can be made here: %v\n%s", err, out)
		}
	}
	without(t, unix.CAP_NET_RAW)
	found, err := inspectNow(t)
	must(t, err)
	if len(found) != 2 || found[0].Kind != KubeProxy || !strings.HasPrefix(found[0].Text, "iptables-legacy holds chain KUBE-SERVICES") || !strings.HasPrefix(found[1].Text, "ip6tables-legacy") {
		t.Errorf("found %v", found)
	}
}

// A table that cannot be read is not an empty one.
func TestLegacyRulesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	dir := t.TempDir()
	names := filepath.Join(dir, "ip_tables_names")
	look := func() (found []Finding) {
		inspectLegacy(dir, func(kind FindingKind, format string, _ ...any) { found = append(found, Finding{kind, format}) })
		return found
	}
	if found := look(); len(found) > 0 {
		t.Errorf("without the old interface: %v", found)
	}
	must(t, os.WriteFile(names, []byte("filter\n"), 0o600))
	if found := look(); len(found) > 0 {
		t.Errorf("without a nat table: %v", found)
	}
	must(t, os.WriteFile(names, []byte("nat\n"), 0o600))
	without(t, unix.CAP_NET_ADMIN)
	if found := look(); len(found) != 1 || found[0].Kind != Unseen {
		t.Errorf("not permitted to read it: %v", found)
	}
	must(t, os.Remove(names))
	must(t, os.Mkdir(names, 0o700))
	if found := look(); len(found) != 1 || found[0].Kind != Unseen {
		t.Errorf("the names cannot be read: %v", found)
	}
}

// Rules of a policy engine that the old iptables wrote are found, as those of nftables are, and
// a table of filters that cannot be read is none that shows no engine.
func TestLegacyRulesOfPolicyEngines(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	old := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), args[0], append([]string{"-t", "filter"}, args[1:]...)...).CombinedOutput(); err != nil {
			t.Skipf("SKIPPED: no rules of the old iptables can be made here: %v\n%s", err, out)
		}
	}
	old("iptables-legacy", "-N", "mine")
	old("iptables-legacy", "-A", "FORWARD", "-m", "comment", "--comment", "cali-of-nobody", "-j", "mine")
	found, err := inspectNow(t)
	must(t, err)
	if len(found) > 0 {
		t.Errorf("chains of nobody's: %v", found)
	}
	old("iptables-legacy", "-N", "cali-FORWARD")
	old("ip6tables-legacy", "-N", "KUBE-NWPLCY-DEFAULT")
	found, err = inspectNow(t)
	must(t, err)
	if len(found) != 2 || found[0].Kind != PolicyEngine || !strings.HasPrefix(found[0].Text, "table filter of iptables-legacy") || found[1].Kind != PolicyEngine || !strings.HasPrefix(found[1].Text, "table filter of ip6tables-legacy") {
		t.Errorf("found %v", found)
	}
	without(t, unix.CAP_NET_ADMIN)
	if err := oldPolicyEngines("/proc/thread-self/net", func(FindingKind, string, ...any) {}); err == nil {
		t.Error("what cannot be read is taken for empty")
	}
}

// Asked again and again, it notices what comes and what goes.
func TestInspectorFollows(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	c, err := New(config(), testHost(t))
	must(t, err)
	look := c.Inspector()
	want := func(when string, n int) {
		t.Helper()
		if found, err := look(); err != nil || len(found) != n {
			t.Errorf("%s: found %v, %v", when, found, err)
		}
	}
	want("nothing", 0)
	want("nothing yet", 0)
	table := &nftables.Table{Name: "kube-proxy", Family: nftables.TableFamilyIPv4}
	addChain(t, &nftables.Chain{Table: table, Name: "services"})
	want("kube-proxy came", 1)
	want("and is there", 1)
	conn, err := nftables.New()
	must(t, err)
	conn.DelTable(table)
	must(t, conn.Flush())
	want("and went", 0)
}
