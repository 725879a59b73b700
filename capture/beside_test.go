package capture

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/capture/kubeproxy"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// theirs is a kube-proxy that translates all that is for ClusterIPs to somebody who is not there.
const theirs = `
table ip kube-proxy {
	chain services {
		ip daddr 10.96.0.0/16 dnat to 198.51.100.1
	}
	chain nat-prerouting {
		type nat hook prerouting priority -100
		jump services
	}
	chain nat-output {
		type nat hook output priority -100
		jump services
	}
}
`

// The kernel path comes before kube-proxy, whichever was there first; what it does not
// know is kube-proxy's; and what it translated goes on where it is removed.
func TestTheKernelPathComesBeforeKubeProxy(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]bool{"kube-proxy was there": false, "kube-proxy came": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newKernelLab(t, kernelConfig())
			write := func(text string) {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), "nft", "-f", "-")
				cmd.Stdin = strings.NewReader(text)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Skipf("SKIPPED: rules of kube-proxy cannot be made here: %v\n%s", err, out)
				}
			}
			l.serve(t, "b", l.b)
			if !after {
				must(t, l.Remove())
				write(theirs)
				l.Capture = starting(t, l.cfg, l.host)
			}
			l.put(t, plan.KernelFrontend{Frontend: tcp("10.96.0.10:80"), Tiers: tiers(false, "b")})
			if after {
				write(theirs)
			}
			for who, from := range map[string]*testkit.Network{"a pod": l.a, "the host": l.node, "another node": l.far} {
				if name, _ := once(t, from, "", "10.96.0.10:80"); name != "b" {
					t.Errorf("%s is answered: %s", who, name)
				}
				if _, said := dial(t, from, "tcp", "", "10.96.0.11:80", 200*time.Millisecond); said != isSilent {
					t.Errorf("%s, of what kube-proxy alone has: %s", who, said)
				}
			}
			conn, _ := dial(t, l.a, "tcp", "", "10.96.0.10:80", 10*time.Second)
			if conn == nil {
				t.Fatal("no connection")
			}
			defer conn.Close()
			must(t, kubeproxy.Remove())
			alive(t, conn)
			if name, _ := once(t, l.a, "", "10.96.0.10:80"); name != "b" {
				t.Errorf("without kube-proxy: %s", name)
			}
		})
	}
}
