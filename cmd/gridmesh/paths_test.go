package main

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// keyed gives a state the Service till, whose TCP is Envoy's with --datapath auto and
// whose UDP is not.
func keyed(b *topology.Builder) {
	keys, key := `["site"]`, topology.ObjectKey{Namespace: "default", Name: "till"}
	for _, name := range []string{"edge-7", "edge-8"} {
		b.SetNode(&topology.Node{Name: name, Labels: map[string]string{"site": "a"}})
	}
	b.SetService(&topology.Service{Key: key, TopologyKeys: &keys, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.11")}, Ports: []topology.ServicePort{
		{Name: "t", Port: 80, Protocol: topology.TCP},
		{Name: "u", Port: 53, Protocol: topology.UDP},
	}})
	b.SetSlice(&topology.Slice{
		Key: key, Service: "till", Ports: []topology.SlicePort{{Name: "t", Port: 8080, Protocol: topology.TCP}, {Name: "u", Port: 53, Protocol: topology.UDP}},
		Endpoints: []topology.Endpoint{{Addr: netip.MustParseAddr("10.244.8.3"), Node: "edge-8", Ready: true}},
	})
}

// While the kernel serves what is Envoy's, its agent's word is taken: of new connections
// none is Envoy's. Another node's agent knows nothing of that, nor of another datapath.
func TestWhoGetsNewConnectionsIsTheAgentsWord(t *testing.T) {
	const (
		beside = "kube-proxy: its rules are on this node, behind those of gridmesh: the kernel serves all"
		absent = "Envoy takes no connections: the kernel serves the first tier of what it served"
		envoy  = "verdict: envoy\n"
		kernel = "verdict: kernel\n"
	)
	later := time.Now().Add(30 * time.Second).Format(time.RFC3339)
	for says, why := range map[string]string{
		`"envoys": [{"version": "1.40.0"}]`:                                                                  "",
		`"envoys": [{"version": "1.40.0"}], "besideKubeProxy": true`:                                         beside,
		`"envoys": [], "besideKubeProxy": true`:                                                              beside,
		`"envoys": [{"version": "1.40.0"}], "besideKubeProxy": true, "kubeProxyUntil": "` + later + `"`:      "kube-proxy: its rules are gone from this node: Envoy gets connections in ",
		`"envoys": [], "envoyAbsent": true`:                                                                  absent,
		`"envoys": [{"version": "1.40.0"}], "envoyAbsent": true, "envoyBack": "` + later + `"`:               absent + "; it serves again, and gets new connections in ",
		`"envoys": [{"version": "1.40.0"}], "ejections": {"error": "silent"}, "envoyAbsent": true, "more":1`: absent,
	} {
		socket := agentOf(t, `{"node": "edge-7", "podCIDRs": ["10.244.7.0/24"], "datapath": "auto", `+says+`}`, keyed)
		trace := func(to string, args ...string) (out, log string) {
			_, out, log = gridmesh(t, append([]string{"trace", "--socket", socket, "--from", "10.244.7.9", "--to", to}, args...)...)
			return out, log
		}
		verdict, path := envoy, "10.96.0.11:80/tcp, by envoy"
		if why != "" {
			verdict, path = kernel, "10.96.0.11:80/tcp, by kernel"
		}
		out, log := trace("10.96.0.11:80")
		if !strings.HasSuffix(out, verdict) || !strings.Contains(out, why) || strings.Contains(out, "tproxy") != (why == "") || log != "" {
			t.Errorf("%s: want %s and %q:\n%s%s", says, verdict, why, out, log)
		}
		if doc, _ := trace("10.96.0.11:80", "-o", "json"); strings.Contains(doc, `"verdict":"kernel"`) != (why != "") || !strings.Contains(doc, why) {
			t.Errorf("%s: %s", says, doc)
		}
		if out, _ := trace("10.96.0.11:53/udp"); !strings.HasSuffix(out, kernel) || why != "" && strings.Contains(out, why) {
			t.Errorf("%s: what is the kernel's in any case: %s", says, out)
		}
		if out, _ := trace("10.96.0.11:80", "--node", "edge-8"); !strings.HasSuffix(out, envoy) {
			t.Errorf("%s: of another node: %s", says, out)
		}
		if out, _ := trace("10.96.0.11:80", "--datapath", "envoy"); !strings.HasSuffix(out, envoy) {
			t.Errorf("%s: with another datapath: %s", says, out)
		}
		_, out, log = gridmesh(t, "view", "till", "--socket", socket)
		_, doc, _ := gridmesh(t, "view", "till", "--socket", socket, "-o", "json")
		if !strings.Contains(out, path) || !strings.Contains(out, why) || why != "" && strings.Contains(out, "ejected") || log != "" {
			t.Errorf("%s: view: want %q and %q:\n%s%s", says, path, why, out, log)
		}
		if strings.Contains(doc, `"path":"envoy"`) != (why == "") || strings.Contains(doc, `"kernelServes":["`+why) != (why != "") || why != "" && strings.Contains(doc, `"ejections"`) {
			t.Errorf("%s: view: %s", says, doc)
		}
		if _, out, _ := gridmesh(t, "view", "web", "--socket", socket); why != "" && strings.Contains(out, why) {
			t.Errorf("%s: view of what is the kernel's in any case: %s", says, out)
		}
		if _, out, _ := gridmesh(t, "view", "till", "--socket", socket, "--node", "edge-8"); !strings.Contains(out, "by envoy") {
			t.Errorf("%s: view of another node: %s", says, out)
		}
	}
}

// Of NetworkPolicies that are there, or may be, what the agent's status says is said.
func TestPoliciesAreSaidAsTheAgentDoes(t *testing.T) {
	later := time.Now().Add(9 * time.Minute).Format(time.RFC3339)
	for says, want := range map[string]string{
		`"networkPolicies": true`:                                          "the cluster has some: the kernel serves all, for what goes through Envoy passes by them",
		`"networkPolicies": true, "networkPoliciesUnknown": true`:          "it is not known yet that there are none: the kernel serves all until then",
		`"networkPolicies": true, "networkPoliciesUntil": "` + later + `"`: "the cluster has none any more: the kernel serves all for ",
	} {
		want = "NetworkPolicies: " + want
		socket := agentOf(t, `{"node": "edge-7", "datapath": "auto", `+says+`}`, keyed)
		for _, args := range [][]string{{"trace", "--from", "10.244.7.9", "--to", "10.96.0.11:80"}, {"view"}} {
			args = append(args, "--socket", socket)
			_, out, _ := gridmesh(t, args...)
			_, doc, _ := gridmesh(t, append(args, "-o", "json")...)
			if !strings.Contains(out, want) || !strings.Contains(doc, want) || strings.Contains(out, policedText) {
				t.Errorf("%s, %s: want %q:\n%s%s", says, args[0], want, out, doc)
			}
			if _, out, _ := gridmesh(t, append(args, "--node", "edge-8")...); !strings.Contains(out, policedText) {
				t.Errorf("%s, %s of another node: %s", says, args[0], out)
			}
		}
	}
}

// The path of a node's agent is its operator's choice, and neither an API server nor what the
// agent kept has it: that the default is shown is said, where it matters and nobody chose.
func TestADatapathThatNobodySays(t *testing.T) {
	const says = "note: which --datapath the agent of edge-7 has is not known here, and auto, the default, is taken: give the flag if it has another; with envoy, nothing of what is by the kernel here is served\n"
	kubeconfig := apiServer(t)
	dir, _ := keptState(t)
	for name, state := range map[string][]string{
		"a cluster": {"--kubeconfig", kubeconfig, "--node", "edge-7"}, "what it kept": {"--state-dir", dir},
		"an agent that is silent of itself": {"--socket", agentOf(t, `{}`), "--node", "edge-7"},
	} {
		for _, args := range [][]string{{"view"}, {"xds"}, {"trace", "--from", "10.244.7.9", "--to", "10.96.0.10:80"}} {
			args = append(args, state...)
			if _, out, log := gridmesh(t, args...); strings.Count(log, says) != 1 || strings.Contains(out, says) {
				t.Errorf("%s, %s: %s", name, args[0], log)
			}
			for _, path := range []string{"auto", "kernel", "envoy"} {
				if _, _, log := gridmesh(t, append(args, "--datapath", path)...); strings.Contains(log, "--datapath") {
					t.Errorf("%s, %s --datapath %s: %s", name, args[0], path, log)
				}
			}
		}
		if _, _, log := gridmesh(t, append([]string{"dns", "web"}, state...)...); strings.Contains(log, "--datapath") {
			t.Errorf("%s, dns, which no path changes: %s", name, log)
		}
	}
	for _, agent := range []string{`{"node": "edge-7", "datapath": "auto"}`, `{"node": "edge-7"}`} {
		if _, _, log := gridmesh(t, "view", "--socket", agentOf(t, agent)); strings.Contains(log, "--datapath") {
			t.Errorf("an agent that says its own, %s: %s", agent, log)
		}
	}
	_, _, log := gridmesh(t, "view", "--state-dir", dir, "--node", "edge-8", "--lenient")
	if other := strings.ReplaceAll(says, "edge-7", "edge-8"); !strings.Contains(log, other) || strings.Count(log, "--datapath") != 1 {
		t.Errorf("of another node than the one that kept it: %s", log)
	}
}

// Where the kernel does not take the rules, or something on the node comes before them, what
// the agent's status says is said; of another node its agent knows nothing.
func TestWhatKeepsTheNodeFromIt(t *testing.T) {
	for says, want := range map[string]string{
		`"error": "write set serve4: no buffer space available"`:                               "note: the rules of this node are not as they should be, and what is shown is what they are to do: write set serve4: no buffer space available\n",
		`"findings": [{"kind": "input-drop", "text": "a firewall drops in INPUT"}]`:            "note: a firewall drops in INPUT\n",
		`"findings": [{"kind": "service-cidr", "text": "ServiceCIDR 10.244.0.0/16 overlaps"}]`: "note: ServiceCIDR 10.244.0.0/16 overlaps\n",
		`"findings": [{"kind": "conntrack", "text": "flows are not forgotten"}]`:               "",
	} {
		socket := agentOf(t, `{"node": "edge-7", "datapath": "auto", "envoys": [{"version": "1.40.0"}], `+says+`}`, keyed)
		for _, args := range [][]string{{"trace", "--from", "10.244.7.9", "--to", "10.96.0.11:80"}, {"view"}} {
			args = append(args, "--socket", socket)
			if _, _, log := gridmesh(t, args...); strings.Contains(log, "note: ") != (want != "") || !strings.Contains(log, want) {
				t.Errorf("%s, %s: want %q: %s", says, args[0], want, log)
			}
			if _, _, log := gridmesh(t, append(args, "--node", "edge-8")...); want != "" && strings.Contains(log, want) {
				t.Errorf("%s, %s of another node: %s", says, args[0], log)
			}
		}
	}
}
