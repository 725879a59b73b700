package convert

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/topology"
)

// PutOver is a Service as it is once it is put over another of its name, if any. Where
// an API server has that, and somebody wrote the new one, it keeps what the API server
// chose: as its patchAllocatedValues does, and what it clears with the type; and the
// labels and annotations that others gave it.
func PutOver(live, s *corev1.Service) *corev1.Service {
	if live == nil || live.UID == "" || s.UID != "" {
		return s
	}
	out := s.DeepCopy()
	out.UID, out.CreationTimestamp = live.UID, live.CreationTimestamp
	was := lastApplied(live)
	out.Labels = keepOthers(live.Labels, was.Metadata.Labels, s.Labels)
	out.Annotations = keepOthers(live.Annotations, was.Metadata.Annotations, s.Annotations)
	keepAddresses(&live.Spec, &out.Spec)
	if nodePorts(&live.Spec) && nodePorts(&out.Spec) {
		keepNodePorts(live.Spec.Ports, out.Spec.Ports)
	}
	if !balanced(&live.Spec) || !balanced(&out.Spec) {
		return out
	}
	out.Status = live.Status
	if out.Spec.HealthCheckNodePort == 0 && externalLocal(&live.Spec) && externalLocal(&out.Spec) {
		out.Spec.HealthCheckNodePort = live.Spec.HealthCheckNodePort
	}
	return out
}

// PutNodeOver is a Node as it is once it is put over one that an API server has: also with
// those labels that were applied before and are named no longer, for what was applied is not known of it.
func PutNodeOver(live, n *topology.Node) *topology.Node {
	return &topology.Node{Name: n.Name, Labels: keepOthers(live.Labels, nil, n.Labels)}
}

// applied is what kubectl apply notes of what it applied.
type applied struct {
	Metadata struct{ Labels, Annotations map[string]string }
}

// lastApplied reads that; of what somebody else made there is nothing.
func lastApplied(s *corev1.Service) (a applied) {
	if json.Unmarshal([]byte(s.Annotations[corev1.LastAppliedConfigAnnotation]), &a) != nil {
		return applied{}
	}
	return a
}

// keepOthers adds to labels or annotations those of a live object, as kubectl apply
// does: but for what it applied before.
func keepOthers(live, applied, written map[string]string) map[string]string {
	if len(live) == 0 {
		return written
	}
	all := maps.Clone(live)
	maps.DeleteFunc(all, func(key string, _ string) bool { _, was := applied[key]; return was })
	maps.Copy(all, written)
	return all
}

func keepAddresses(live, s *corev1.ServiceSpec) {
	if live.Type == corev1.ServiceTypeExternalName || s.Type == corev1.ServiceTypeExternalName {
		return
	}
	if s.ClusterIP == "" && len(s.ClusterIPs) == 0 {
		s.ClusterIP = live.ClusterIP
	}
	if len(s.ClusterIPs) == 0 && s.ClusterIP == live.ClusterIP {
		s.ClusterIPs = live.ClusterIPs
	}
}

// keepNodePorts has the ports that ask for none keep those of the same name, unless
// another one has it now.
func keepNodePorts(live, ports []corev1.ServicePort) {
	for i := range ports {
		was := slices.IndexFunc(live, func(p corev1.ServicePort) bool { return p.Name == ports[i].Name })
		if was < 0 || ports[i].NodePort != 0 {
			continue
		}
		taken := slices.ContainsFunc(ports, func(p corev1.ServicePort) bool { return p.NodePort == live[was].NodePort })
		if !taken {
			ports[i].NodePort = live[was].NodePort
		}
	}
}

func balanced(s *corev1.ServiceSpec) bool { return s.Type == corev1.ServiceTypeLoadBalancer }

// nodePorts reports whether an API server gives the ports of a Service node ports.
func nodePorts(s *corev1.ServiceSpec) bool {
	return s.Type == corev1.ServiceTypeNodePort || balanced(s) && (s.AllocateLoadBalancerNodePorts == nil || *s.AllocateLoadBalancerNodePorts)
}
