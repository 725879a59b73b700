package migrate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/capture/kubeproxy"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/xds"
)

var (
	both  = []string{"ip", "ip6"}
	byNft = kubeproxy.Rules{Nftables: both}
	runs  = "process 7 is kube-proxy"
)

// agent is one that serves.
func agent(datapath string, edit ...func(*report.Report)) *report.Report {
	r := &report.Report{Source: report.Live, TakeOver: true, Datapath: datapath, Updated: time.Now(), Paths: &report.Paths{Envoy: 1, Kernel: 1}, Envoys: []xds.Stream{{Version: "1"}}}
	if datapath == "kernel" {
		r.Paths.Envoy = 0
	}
	for _, e := range edit {
		e(r)
	}
	return r
}

func isOfBefore(r *report.Report) { r.Source = report.LastGood }

func isBeside(r *report.Report) { r.BesideKubeProxy = true }

func isSoon(r *report.Report) { r.BesideKubeProxy, r.KubeProxyUntil = true, r.Updated.Add(time.Minute) }

func hasNoEnvoy(r *report.Report) { r.Envoys = nil }

func isAbsent(r *report.Report) { r.EnvoyAbsent = true }

func looksAtNobody(r *report.Report) { r.TakeOver = false }

// steps are those of a plan, by who does them.
func steps(p Plan) string {
	var list []string
	for _, s := range p.Steps {
		word, _, _ := strings.Cut(s.What, ":")
		word, _, _ = strings.Cut(word, " (")
		list = append(list, fmt.Sprintf("%s%s", map[Do]string{Yours: "you ", Wait: ""}[s.Do], word))
	}
	return strings.Join(list, "; ")
}

// Each place on the way has what is left of it.
func TestPlan(t *testing.T) {
	const start, waits, stop, gone = "you start the agent beside kube-proxy", "wait until gridmesh serves on this node", "you stop kube-proxy on this node", "wait until the agent has removed what it leaves"
	const begin, serves, end, clean = "you start kube-proxy, behind gridmesh's rules", "wait until it serves IPv4 and IPv6", "you stop gridmesh's programs", "you take gridmesh's rules away, once kube-proxy serves"
	for name, tc := range map[string]struct {
		seen    Seen
		back    bool
		steps   string
		blocked string
	}{
		"kube-proxy alone":             {seen: Seen{Rules: byNft, Alive: runs}, steps: start + "; " + waits + "; " + stop + "; " + gone},
		"nothing":                      {seen: Seen{}, steps: "you start the agent; " + waits},
		"what it left":                 {seen: Seen{Rules: byNft}, steps: start + "; " + waits + "; " + gone},
		"the agent begins":             {seen: Seen{Rules: byNft, Alive: runs, Agent: agent("auto", func(r *report.Report) { r.Source = report.None })}, steps: waits + "; " + stop + "; " + gone},
		"beside":                       {seen: Seen{Rules: byNft, Alive: runs, Agent: agent("auto", isBeside)}, steps: stop + "; " + gone},
		"beside what it left":          {seen: Seen{Rules: byNft, Agent: agent("auto", isBeside)}, steps: gone},
		"it came, and is seen":         {seen: Seen{Rules: byNft, Alive: runs, Agent: agent("auto", looksAtNobody)}, steps: stop + "; you have what kube-proxy leaves removed"},
		"it came, and gives no sign":   {seen: Seen{Rules: byNft, Alive: report.ByRulesAlone, Agent: agent("auto", isBeside)}, steps: "you stop kube-proxy on this node for good, and have the agent look anew, for nothing shows it when that is gone; " + gone},
		"it came, and nobody sees it":  {seen: Seen{Rules: byNft, Agent: agent("auto", looksAtNobody)}, steps: "you have what kube-proxy leaves removed"},
		"the old iptables":             {seen: Seen{Rules: kubeproxy.Rules{Old: []string{"iptables-legacy"}}, Agent: agent("auto", isBeside)}, steps: "you remove what it leaves"},
		"there":                        {seen: Seen{Serves: both, Agent: agent("auto")}},
		"its rules are just gone":      {seen: Seen{Serves: both, Agent: agent("auto", isSoon)}, steps: "wait until Envoy gets its part"},
		"no Envoy":                     {seen: Seen{Serves: both, Agent: agent("auto", hasNoEnvoy)}, steps: "wait until an Envoy is connected"},
		"no Envoy, and none needed":    {seen: Seen{Serves: both, Agent: agent("kernel", hasNoEnvoy)}},
		"no Envoy, and it is absent":   {seen: Seen{Serves: both, Agent: agent("auto", hasNoEnvoy, isAbsent)}, steps: "wait until an Envoy is connected"},
		"it hangs":                     {seen: Seen{Serves: both, Agent: agent("auto", isAbsent)}, steps: "wait until Envoy gets its part"},
		"none needed, and absent":      {seen: Seen{Serves: both, Agent: agent("kernel", hasNoEnvoy, isAbsent)}},
		"none needed, just gone":       {seen: Seen{Serves: both, Agent: agent("kernel", hasNoEnvoy, isAbsent, isSoon)}},
		"envoy alone, and nobody else": {seen: Seen{Serves: both, Agent: agent("")}},
		"envoy alone, and not serving": {seen: Seen{Serves: both, Agent: agent("", isOfBefore)}, steps: "wait until gridmesh serves on this node"},
		"envoy alone":                  {seen: Seen{Rules: byNft, Agent: agent("")}, steps: "you have the agent serve all that kube-proxy does; " + gone},
		"ipvs":                         {seen: Seen{Rules: kubeproxy.Rules{IPVS: true}, Alive: runs}, steps: start + "; " + waits + "; " + stop + "; you remove what it leaves", blocked: "mode: nftables"},

		"back, with Envoy":                  {back: true, seen: Seen{Serves: both, Agent: agent("auto")}, steps: "you have the kernel serve all; " + begin + "; " + serves + "; " + end + "; " + clean},
		"back, by the kernel":               {back: true, seen: Seen{Serves: both, Agent: agent("kernel")}, steps: begin + "; " + serves + "; " + end + "; " + clean},
		"back, it left rules":               {back: true, seen: Seen{Serves: both, Rules: byNft, Theirs: both, Agent: agent("kernel")}, steps: begin + "; " + serves + "; " + end + "; " + clean},
		"back, too early":                   {back: true, seen: Seen{Serves: both, Rules: byNft, Theirs: both, Alive: runs, Agent: agent("auto", looksAtNobody)}, blocked: "--datapath=kernel --take-over=kube-proxy, and restart", steps: end + "; " + clean},
		"back, one family":                  {back: true, seen: Seen{Serves: both, Rules: byNft, Theirs: both[:1], Alive: runs, Agent: agent("kernel")}, steps: serves + "; " + end + "; " + clean},
		"back, it begins":                   {back: true, seen: Seen{Serves: both, Alive: runs, Agent: agent("kernel")}, steps: serves + "; " + end + "; " + clean},
		"back, nobody answers":              {back: true, seen: Seen{Serves: both, Handed: true}, steps: "you have the kernel serve all; " + begin + "; " + serves + "; " + clean},
		"back, nobody, and late":            {back: true, seen: Seen{Serves: both, Handed: true, Rules: byNft, Theirs: both, Alive: runs}, blocked: "start gridmesh-agent with --datapath=kernel --take-over=kube-proxy", steps: clean},
		"back, just there":                  {back: true, seen: Seen{Serves: both, Agent: agent("auto", isSoon)}, steps: "you have the kernel serve all; " + begin + "; " + serves + "; " + end + "; " + clean},
		"back, just there, by the kernel":   {back: true, seen: Seen{Serves: both, Agent: agent("kernel", isSoon)}, steps: begin + "; " + serves + "; " + end + "; " + clean},
		"back, just gone, by the kernel":    {back: true, seen: Seen{Serves: both, Rules: byNft, Theirs: both, Alive: runs, Agent: agent("kernel", isSoon)}, steps: end + "; " + clean},
		"back, it is absent for the moment": {back: true, seen: Seen{Serves: both, Agent: agent("auto", isAbsent)}, steps: "you have the kernel serve all; " + begin + "; " + serves + "; " + end + "; " + clean},
		"back, beside, and absent":          {back: true, seen: Seen{Serves: both, Rules: byNft, Theirs: both, Alive: runs, Agent: agent("auto", isBeside, isAbsent)}, steps: end + "; " + clean},
		"back, behind the rules":            {back: true, seen: Seen{Serves: both, Rules: byNft, Theirs: both, Alive: runs}, steps: clean},
		"back, there":                       {back: true, seen: Seen{Rules: byNft, Theirs: both, Alive: runs}},
		"back, of before":                   {back: true, seen: Seen{Serves: both, Handed: true, Agent: agent("kernel", isOfBefore)}, steps: "wait until the kernel serves all; " + begin + "; " + serves + "; " + end + "; " + clean},
		"back, nothing is Envoy's now":      {back: true, seen: Seen{Serves: both, Agent: agent("auto", func(r *report.Report) { r.Paths.Envoy = 0 })}, steps: "you have the kernel serve all; " + begin + "; " + serves + "; " + end + "; " + clean},
		"back, it never served":             {back: true, seen: Seen{Rules: byNft, Theirs: both, Alive: runs, Installed: true}, steps: "you take away the rules of an agent that never served"},
		"back, it never serves":             {back: true, seen: Seen{Rules: byNft, Theirs: both, Alive: runs, Agent: agent("auto", isBeside, isOfBefore)}, steps: end + "; " + clean},
		"back, nobody":                      {back: true, seen: Seen{}, steps: "you start kube-proxy"},
		"back, what it left":                {back: true, seen: Seen{Rules: byNft, Theirs: both}, steps: "you start kube-proxy"},
	} {
		tc.seen.At = time.Now()
		p := Of(tc.seen, Want{Back: tc.back, Datapath: "auto"})
		if got := steps(p); got != tc.steps {
			t.Errorf("%s:\n%s, want\n%s", name, got, tc.steps)
		}
		if blocked := strings.Join(p.Blocked, "; "); (blocked == "") != (tc.blocked == "") || !strings.Contains(blocked, tc.blocked) {
			t.Errorf("%s: blocked by %q, want %q", name, blocked, tc.blocked)
		}
	}
}

// What kube-proxy was told becomes flags, or is said to be otherwise.
func TestDifferences(t *testing.T) {
	p, err := ParseProxy([]byte(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
nodePortAddresses: [10.0.0.0/8]
clusterCIDR: 10.244.0.0/16
healthzBindAddress: 0.0.0.0:10256
metricsBindAddress: 0.0.0.0:10249
conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 24h0m0s, udpTimeout: 1m0s}
iptables: {masqueradeAll: true, localhostNodePorts: false}
winkernel: {networkName: x}
`))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := (Plan{State: "state", Differs: differences(p)}).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := `state

kube-proxy was told               gridmesh
nodePortAddresses: 10.0.0.0/8   --nodeport-addresses=10.0.0.0/8
masqueradeAll: true               pods of this node keep their address towards ClusterIPs
clusterCIDR: 10.244.0.0/16        pods are told by the podCIDRs of their Node, or --pod-cidr: other sources come with the node's address
metricsBindAddress: 0.0.0.0:10249 --metrics-bind-address=0.0.0.0:10249
conntrack.maxPerCore: 0           --conntrack-max-per-core=0
conntrack.udpTimeout: 1m0s        --conntrack-udp-timeout=1m0s
`
	got, _, _ := strings.Cut(b.String(), "\nnothing is left")
	if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// How kube-proxy tells pods may change which sources are kept.
func TestDifferencesOfHowPodsAreTold(t *testing.T) {
	for text, want := range map[string]string{
		"clusterCIDR: 10.244.0.0/16":                                                                         "clusterCIDR: 10.244.0.0/16",
		"detectLocalMode: NodeCIDR\nclusterCIDR: 10.244.0.0/16":                                              "",
		"detectLocalMode: ClusterCIDR\nclusterCIDR: 10.244.0.0/16":                                           "clusterCIDR: 10.244.0.0/16",
		"detectLocalMode: BridgeInterface\nclusterCIDR: 10.244.0.0/16\ndetectLocal: {bridgeInterface: cni0}": "detectLocalMode: BridgeInterface cni0",
		"detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: veth}":                     "detectLocalMode: InterfaceNamePrefix veth",
	} {
		p, err := ParseProxy([]byte("kind: KubeProxyConfiguration\nnodePortAddresses: [10.0.0.0/8]\niptables: {localhostNodePorts: false}\n" + text))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range differences(p)[1:] {
			if got = append(got, d.What); !strings.Contains(d.Gridmesh, "podCIDRs") {
				t.Errorf("%s: %+v", text, d)
			}
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// Whoever serves node ports at the primary addresses finds these as gridmesh does, by the Node.
func TestPrimaryIsTheSame(t *testing.T) {
	for text, differs := range map[string]bool{"mode: nftables": false, "mode: iptables\nnodePortAddresses: [primary]": false, "mode: iptables": true} {
		p, err := ParseProxy([]byte("kind: KubeProxyConfiguration\n" + text))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(differences(p)); strings.Contains(got, "nodePortAddresses") != differs || strings.Contains(got, "InternalIPs") != differs {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// A file of something else is no configuration of kube-proxy.
func TestParseProxyRefuses(t *testing.T) {
	for _, text := range []string{"kind: KubeletConfiguration", "[", "kind: KubeProxyConfiguration\nnodePortAddresses: 7"} {
		if _, err := ParseProxy([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func FuzzParseProxy(f *testing.F) {
	f.Add([]byte("kind: KubeProxyConfiguration\nmode: ipvs\nconntrack: {maxPerCore: 1}"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		if p, err := ParseProxy(text); err == nil {
			differences(p)
		}
		differences(ofFlags(strings.Fields(string(text))))
	})
}

// What is to come is told as of when it was looked, and not as of the last change of what is served.
func TestWhatIsToComeIsToldAsOfNow(t *testing.T) {
	now := time.Now()
	r := agent("auto", isBeside, func(r *report.Report) {
		r.Updated, r.KubeProxyUntil = now.Add(-time.Hour), now.Add(35*time.Second)
	})
	p := Of(Seen{At: now, Agent: r}, Want{Datapath: "auto"})
	if len(p.Steps) != 1 || !strings.Contains(p.Steps[0].What, "in 35s") {
		t.Errorf("it says %+v", p.Steps)
	}
}
