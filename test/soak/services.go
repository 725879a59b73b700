package soak

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	annotations "github.com/gridmesh/gridmesh/api/names"
)

// numberOf is n of a Service sn.
func numberOf(name string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(name, "s"))
	return n
}

// frontendOf is the fixed address of a Service s0 to s5.
func frontendOf(name string) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, 0, byte(100 + numberOf(name))}), 80)
}

// servicePorts are all that a Service may have besides one without a name: those of a
// word of the script, which names them. All lead to the app's one port.
var servicePorts = []corev1.ServicePort{
	{Name: "main", Port: 80, Protocol: corev1.ProtocolTCP},
	{Name: "alt", Port: 81, Protocol: corev1.ProtocolTCP},
	{Name: "udp", Port: 80, Protocol: corev1.ProtocolUDP},
}

// portsOf are a Service's for a word of the script; of "one" the port has no name.
func portsOf(word string) (list []corev1.ServicePort) {
	if word == "one" {
		return []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}
	}
	names := strings.Split(word, ",")
	return slices.DeleteFunc(slices.Clone(servicePorts), func(p corev1.ServicePort) bool { return !slices.Contains(names, p.Name) })
}

// nodePortOf is the fixed node port of a Service's port; a port without a name has that
// of main.
func nodePortOf(name, port string) int32 {
	i := slices.IndexFunc(servicePorts, func(p corev1.ServicePort) bool { return p.Name == port })
	return int32(30000 + 100*max(0, i) + numberOf(name))
}

// slicePorts are those of every slice, by whatever name a Service asks for them.
func slicePorts() []discoveryv1.EndpointPort {
	list := []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To[int32](appPort), Protocol: ptr.To(corev1.ProtocolTCP)}}
	for _, p := range servicePorts {
		list = append(list, discoveryv1.EndpointPort{Name: ptr.To(p.Name), Port: ptr.To[int32](appPort), Protocol: ptr.To(p.Protocol)})
	}
	return list
}

// keysOf is the annotation for a word of the script; nil for none.
func keysOf(word string) map[string]string {
	switch word {
	case "none":
		return nil
	case "typo":
		return map[string]string{annotations.TopologyKeys: `["unit"`}
	}
	return map[string]string{annotations.TopologyKeys: `["` + strings.ReplaceAll(word, ",", `","`) + `"]`}
}

func (s *Soak) setService(ctx context.Context, args []string) error {
	name, services := args[0], s.c.Kube.CoreV1().Services("default")
	policy := corev1.ServiceInternalTrafficPolicy(args[2])
	now, err := services.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		now, err = services.Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: keysOf(args[1])},
			Spec: corev1.ServiceSpec{
				ClusterIP: frontendOf(name).Addr().String(), InternalTrafficPolicy: &policy, Ports: portsOf("one"),
			},
		}, metav1.CreateOptions{})
	} else if err == nil {
		now.Annotations, now.Spec.InternalTrafficPolicy = keysOf(args[1]), &policy
		now, err = services.Update(ctx, now, metav1.UpdateOptions{})
	}
	return s.noted(now, err)
}

// editService changes the spec of a Service that is there.
func (s *Soak) editService(ctx context.Context, name string, change func(*corev1.ServiceSpec)) error {
	services := s.c.Kube.CoreV1().Services("default")
	now, err := services.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return gone(err)
	}
	change(&now.Spec)
	for i := range now.Spec.Ports {
		p := &now.Spec.Ports[i]
		p.NodePort = 0
		if now.Spec.Type == corev1.ServiceTypeNodePort {
			p.NodePort = nodePortOf(name, p.Name)
		}
	}
	now, err = services.Update(ctx, now, metav1.UpdateOptions{})
	return s.noted(now, err)
}

func (s *Soak) setPorts(ctx context.Context, args []string) error {
	return s.editService(ctx, args[0], func(spec *corev1.ServiceSpec) { spec.Ports = portsOf(args[1]) })
}

func (s *Soak) setType(ctx context.Context, args []string) error {
	return s.editService(ctx, args[0], func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceType(args[1]) })
}

func (s *Soak) setAffinity(ctx context.Context, args []string) error {
	if args[1] == "none" {
		return s.editService(ctx, args[0], func(spec *corev1.ServiceSpec) {
			spec.SessionAffinity, spec.SessionAffinityConfig = corev1.ServiceAffinityNone, nil
		})
	}
	d, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	return s.editService(ctx, args[0], func(spec *corev1.ServiceSpec) {
		spec.SessionAffinity = corev1.ServiceAffinityClientIP
		spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To(int32(d.Seconds()))}}
	})
}

// policyOf is a NetworkPolicy for a word of the script. No word forbids anything that is
// dialled: where there is one at all, agents of two paths take another.
func policyOf(word string) (spec networkingv1.NetworkPolicySpec) {
	port := networkingv1.NetworkPolicyPort{Port: ptr.To(intstr.FromInt32(appPort))}
	spec.PodSelector = metav1.LabelSelector{MatchLabels: map[string]string{"app": steadyService.Name}}
	switch word {
	case "app":
		spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		tcp, udp := port, port
		tcp.Protocol, udp.Protocol = ptr.To(corev1.ProtocolTCP), ptr.To(corev1.ProtocolUDP)
		spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{tcp, udp}}}
	case "client": // pods of the steady app dial
		spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
		spec.Egress = []networkingv1.NetworkPolicyEgressRule{{}}
	case "all":
		spec.PodSelector = metav1.LabelSelector{}
		spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
		spec.Ingress, spec.Egress = []networkingv1.NetworkPolicyIngressRule{{}}, []networkingv1.NetworkPolicyEgressRule{{}}
	default:
		spec.PodSelector.MatchLabels["app"] = word
	}
	return spec
}

func (s *Soak) networkPolicy(ctx context.Context, args []string) (func() error, error) {
	target := "networkpolicy " + args[0]
	if !s.take(target) {
		return nil, errBusy
	}
	list := s.c.Kube.NetworkingV1().NetworkPolicies("default")
	if _, err := list.Create(ctx, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: args[0]}, Spec: policyOf(args[1])}, metav1.CreateOptions{}); err != nil {
		s.free(target)
		return nil, &leftOut{err}
	}
	return s.insist(ctx, func() error { return gone(list.Delete(ctx, args[0], metav1.DeleteOptions{})) }, func() { s.free(target) }), nil
}
