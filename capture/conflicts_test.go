package capture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

// A check of files that is in no list is never asked.
func TestFileChecksAreListed(t *testing.T) {
	files, err := parser.ParseDir(token.NewFileSet(), ".", nil, 0) //nolint:staticcheck // one folder without build tags
	must(t, err)
	checks, listed := map[string]bool{}, map[string]bool{}
	ast.Inspect(files["capture"], func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if list := n.Type.Params.List; strings.HasPrefix(n.Name.Name, "inspect") && len(list) > 0 && len(list[0].Names) > 0 && list[0].Names[0].Name == "procNet" {
				checks[n.Name.Name] = true
			}
		case *ast.ValueSpec:
			if n.Names[0].Name == "fileChecks" {
				for _, e := range n.Values[0].(*ast.CompositeLit).Elts {
					listed[e.(*ast.Ident).Name] = true
				}
			}
		}
		return true
	})
	if len(checks) == 0 || !maps.Equal(checks, listed) {
		t.Errorf("the checks of files are %v, and fileChecks (conflicts.go) has %v", checks, listed)
	}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	chain := func(family nftables.TableFamily, table, name string) func(*testing.T) {
		return func(t *testing.T) {
			addChain(t, &nftables.Chain{Table: &nftables.Table{Name: table, Family: family}, Name: name})
		}
	}
	link := func(name string) func(*testing.T) {
		return func(t *testing.T) {
			la := netlink.NewLinkAttrs()
			la.Name = name
			must(t, netlink.LinkAdd(&netlink.Bridge{LinkAttrs: la}))
		}
	}
	inputChain := func(policy nftables.ChainPolicy) func(*testing.T) {
		return func(t *testing.T) {
			addChain(t, &nftables.Chain{
				Table: &nftables.Table{Name: "firewall", Family: nftables.TableFamilyINet}, Name: "in", Policy: &policy,
				Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter,
			})
		}
	}
	for name, tc := range map[string]struct {
		make func(*testing.T)
		kind FindingKind
		text string
	}{
		"nothing":               {func(*testing.T) {}, "", ""},
		"kube-proxy, nftables":  {chain(nftables.TableFamilyIPv4, "kube-proxy", "services"), KubeProxy, "nft delete table ip kube-proxy (docs/install.md)"},
		"kube-proxy, iptables":  {chain(nftables.TableFamilyIPv6, "nat", "KUBE-SERVICES"), KubeProxy, "kube-proxy --cleanup (docs/install.md)"},
		"kube-proxy, ipvs":      {link("kube-ipvs0"), KubeProxy, "kube-proxy --cleanup (docs/install.md)"},
		"Calico":                {chain(nftables.TableFamilyIPv4, "filter", "cali-FORWARD"), PolicyEngine, "bypass"},
		"kube-network-policies": {chain(nftables.TableFamilyINet, "kube-network-policies", "x"), PolicyEngine, "bypass"},
		"Cilium":                {link("cilium_host"), PolicyEngine, "bypass"},
		"a firewall":            {inputChain(nftables.ChainPolicyDrop), InputDrop, "accept packets with gridmesh's mark"},
		"one that accepts":      {inputChain(nftables.ChainPolicyAccept), "", ""},
		"somebody else":         {chain(nftables.TableFamilyIPv4, "nat", "DOCKER"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.NewNetwork(t)
			tc.make(t)
			found, err := inspectNow(t)
			must(t, err)
			switch {
			case tc.kind == "" && len(found) > 0:
				t.Errorf("found %v", found)
			case tc.kind == "":
			case len(found) != 1 || found[0].Kind != tc.kind || !strings.Contains(found[0].Text, tc.text):
				t.Errorf("found %v, want one %s: %s", found, tc.kind, tc.text)
			}
		})
	}
}

// inspectNow is what an agent finds that starts.
func inspectNow(t testing.TB) ([]Finding, error) {
	t.Helper()
	c, err := New(config(), testHost(t))
	must(t, err)
	return c.Inspector()()
}

// The capture's own rules are no conflict.
func TestInspectBesideTheCapture(t *testing.T) {
	t.Parallel()
	started(t, kept())
	if found, err := inspectNow(t); err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
}

func addChain(t *testing.T, c *nftables.Chain) {
	t.Helper()
	conn, err := nftables.New()
	must(t, err)
	conn.AddTable(c.Table)
	conn.AddChain(c)
	must(t, conn.Flush())
}
