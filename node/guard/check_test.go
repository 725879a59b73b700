package guard

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/topology"
)

func TestWhatIsInGuardedRanges(t *testing.T) {
	network := func(text, link string) capture.Network {
		return capture.Network{Prefix: netip.MustParsePrefix(text), Link: link}
	}
	route := func(text, link string) capture.Network {
		return capture.Network{Prefix: netip.MustParsePrefix(text), Link: link, Route: true}
	}
	flags := prefixes("10.96.0.0/16", "fd00:96::/112")
	for name, tc := range map[string]struct {
		check Check
		grave int
		want  []string // parts of the findings, in order
	}{
		"nothing":       {Check{Flags: flags, Cluster: flags, Pods: prefixes("10.244.1.0/24"), Networks: []capture.Network{network("10.200.0.0/24", "eth0")}}, 0, nil},
		"nothing known": {Check{Flags: flags}, 0, nil},
		"an address of the host": {
			Check{Flags: flags, Networks: []capture.Network{network("10.96.3.0/24", "eth0"), network("10.96.8.0/24", "cni0")}},
			1,
			[]string{"--service-cidr 10.96.0.0/16 overlaps 10.96.3.0/24, the network of eth0, and 1 more"},
		},
		"a network that holds the range": {
			Check{Flags: flags, Networks: []capture.Network{network("10.0.0.0/8", "eth0")}},
			1,
			[]string{"overlaps 10.0.0.0/8, the network of eth0"},
		},
		"routes": {
			Check{Flags: flags, Networks: []capture.Network{route("10.96.3.0/24", "flannel.1"), route("10.96.4.0/24", "flannel.1")}},
			0,
			[]string{"--service-cidr 10.96.0.0/16 holds 10.96.3.0/24, which is routed by flannel.1, and 1 more"},
		},
		"pods": {
			Check{Flags: flags, Pods: prefixes("10.96.7.0/24")},
			0,
			[]string{"--service-cidr 10.96.0.0/16 overlaps 10.96.7.0/24, the pods of this node"},
		},
		"another cluster's": {
			Check{Flags: flags, Cluster: prefixes("10.43.0.0/16")},
			0,
			[]string{"--service-cidr 10.96.0.0/16 is none of the cluster's ServiceCIDRs (10.43.0.0/16)"},
		},
		"no Service": {
			Check{Flags: flags, Snapshot: services("10.43.0.1", "10.43.7.7", "fd00:96::1")},
			0,
			[]string{"--service-cidr 10.96.0.0/16 holds the ClusterIP of no Service (service default/s0 has 10.43.0.1)"},
		},
		"one Service":       {Check{Flags: append(prefixes("10.97.0.0/16"), flags...), Snapshot: services("10.43.0.1", "10.96.7.7")}, 0, nil},
		"no Services":       {Check{Flags: flags, Snapshot: services()}, 0, nil},
		"of no family":      {Check{Flags: flags[:1], Snapshot: services("fd00:43::1")}, 0, nil},
		"the cluster knows": {Check{Flags: flags, Cluster: prefixes("10.96.0.0/12"), Snapshot: services("10.97.0.1")}, 0, nil},
		"said but once":     {Check{Flags: flags, Cluster: prefixes("10.43.0.0/16"), Snapshot: services("10.43.0.1")}, 0, []string{"is none of the cluster's ServiceCIDRs"}},
		"the cluster's own": {
			Check{Cluster: prefixes("10.43.0.0/16"), Pods: prefixes("10.43.7.0/24"), Networks: []capture.Network{network("10.43.9.0/24", "eth0")}},
			0,
			[]string{"ServiceCIDR 10.43.0.0/16 overlaps 10.43.9.0/24, the network of eth0", "ServiceCIDR 10.43.0.0/16 overlaps 10.43.7.0/24, the pods of this node"},
		},
		"grave ones come first": {
			Check{Flags: flags, Pods: prefixes("10.96.7.0/24"), Networks: []capture.Network{network("fd00:96::/120", "eth0")}},
			1,
			[]string{"--service-cidr fd00:96::/112 overlaps fd00:96::/120, the network of eth0", "the pods of this node"},
		},
	} {
		got, grave := tc.check.Findings()
		if len(got) != len(tc.want) || len(grave) != tc.grave {
			t.Errorf("%s: %v grave of %v", name, grave, got)
			continue
		}
		for i, part := range tc.want {
			cured := strings.Contains(got[i].Text, "give --service-cidr") || strings.Contains(got[i].Text, "give the cluster")
			if got[i].Kind != Overlap || !strings.Contains(got[i].Text, part) || !cured {
				t.Errorf("%s: %q lacks %q, or a cure", name, got[i].Text, part)
			}
		}
	}
}

// services are a state's Services, the eldest first, with these ClusterIPs.
func services(ips ...string) *topology.Snapshot {
	b := topology.NewBuilder()
	for i, ip := range ips {
		key := topology.ObjectKey{Namespace: "default", Name: fmt.Sprint("s", i)}
		b.SetService(&topology.Service{Key: key, Created: int64(i + 1), ClusterIPs: []netip.Addr{netip.MustParseAddr(ip)}})
	}
	return b.Build()
}

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}
