package kubeproxy

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/topology"
)

// tell adds what a view says of a Service, in the words of kubeProxy.answers.
func tell(to map[string]string, sv *topology.ServiceView) {
	for _, f := range sv.Frontends {
		to[fmt.Sprintf("%s %s:%d/%s", sv.Key, f.Addr, f.Port, f.Protocol)] = answer(f.Tiers, f.Silent)
		if sv.Affinity > 0 {
			to[fmt.Sprintf("%s:%s affinity", sv.Key, f.PortName)] = fmt.Sprint(sv.Affinity.Seconds())
		}
	}
	for _, o := range sv.Outside {
		text := "cluster " + answer(o.Tiers, false)
		if o.Local {
			text += " local " + answer(o.LocalTiers, o.Silent)
		}
		if o.Kind == topology.LoadBalancer {
			sources := []string{}
			for _, p := range o.Sources {
				sources = append(sources, p.String())
			}
			slices.Sort(sources)
			text += " from " + fmt.Sprint(sources)
		}
		to[fmt.Sprintf("%s %s:%d/%s", sv.Key, o.Addr, o.Port, o.Protocol)] = text
	}
	if c := sv.HealthCheck; c != nil {
		for _, ip := range sv.ClusterIPs {
			if ip.Is6() {
				to[fmt.Sprint(sv.Key, " health ", corev1.IPv6Protocol)] = fmt.Sprint(c.Port, " has ", c.IPv6)
			} else {
				to[fmt.Sprint(sv.Key, " health ", corev1.IPv4Protocol)] = fmt.Sprint(c.Port, " has ", c.IPv4)
			}
		}
	}
}

func answer(tiers []topology.Tier, silent bool) string {
	var ends []string
	for _, t := range tiers {
		for _, e := range t.Endpoints {
			ends = append(ends, e.Addr.String())
		}
	}
	slices.Sort(ends)
	switch {
	case len(tiers) > 1:
		return "more than one tier: " + strings.Join(ends, " ")
	case len(ends) > 0:
		return fmt.Sprint(ends)
	case silent:
		return "drop"
	}
	return "refuse"
}
