package convert

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/topology"
)

// Node converts a node's metadata.
func Node(m *metav1.ObjectMeta) *topology.Node {
	return &topology.Node{Name: m.Name, Labels: m.Labels}
}

// PodCIDRs converts a node's ranges of pods, or the one of the older field.
func PodCIDRs(n *corev1.NodeSpec) []netip.Prefix {
	if len(n.PodCIDRs) == 0 && n.PodCIDR != "" {
		return ranges([]string{n.PodCIDR})
	}
	return ranges(n.PodCIDRs)
}

// OwnNode is what the agent of a node has to know of its Node, and no snapshot has.
type OwnNode struct {
	PodCIDRs []netip.Prefix
	IPs      []netip.Addr // by which the cluster knows it
}

// OwnNodeOf converts a Node.
func OwnNodeOf(n *corev1.Node) OwnNode {
	own := OwnNode{PodCIDRs: PodCIDRs(&n.Spec)}
	for _, a := range n.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			own.IPs = append(own.IPs, ip.Unmap())
		}
	}
	return own
}

// ServiceCIDR converts the ranges of a ServiceCIDR object.
func ServiceCIDR(c *networkingv1.ServiceCIDR) []netip.Prefix { return ranges(c.Spec.CIDRs) }

// ranges are those that are some; wrong ones are left out, for the API server admits none.
func ranges(texts []string) (list []netip.Prefix) {
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			list = append(list, p.Masked())
		}
	}
	return list
}

// mostProblems bounds those of one object: a broken writer makes everything in
// it wrong.
const mostProblems = 20

// mostRepeated bounds what a Problem repeats of an object.
const mostRepeated = 160

// teller takes the Problems of one object, up to mostProblems.
type teller struct {
	object string
	list   *[]topology.Problem
}

func telling(object string, list *[]topology.Problem) teller { return teller{object, list} }

// tell adds a Problem of what somebody hardly meant.
func (t teller) tell(field, format string, args ...any) {
	t.add(topology.LostNothing, field, format, args...)
}

// refuse adds one of a value that no API server takes, as in a manifest that none has seen.
func (t teller) refuse(field, format string, args ...any) {
	t.add(topology.LostValue, field, format, args...)
}

// pass adds one of a value that an API server takes, and nobody serves.
func (t teller) pass(field, format string, args ...any) {
	t.add(topology.LostRest, field, format, args...)
}

func (t teller) add(loss topology.Loss, field, format string, args ...any) {
	if len(*t.list) >= mostProblems && !t.dropped(loss) {
		return
	}
	for i, a := range args {
		args[i] = repeated(a)
	}
	*t.list = append(*t.list, topology.Problem{Object: t.object, Field: field, Text: fmt.Sprintf(format, args...), Loss: loss})
}

// dropped reports whether a Problem was dropped for one of a loss: that an object is refused
// is not to be lost among what somebody hardly meant.
func (t teller) dropped(loss topology.Loss) bool {
	i := slices.IndexFunc(*t.list, func(p topology.Problem) bool { return p.Loss != topology.LostValue })
	if loss != topology.LostValue || i < 0 {
		return false
	}
	*t.list = slices.Delete(*t.list, i, i+1)
	return true
}

// repeated is what is said of a value: numbers as they are, of a text a part.
func repeated(a any) any {
	switch a.(type) {
	case int, int32, uint32:
		return a
	}
	text := fmt.Sprint(a)
	if len(text) > mostRepeated {
		return bounded(text, mostRepeated) + "..."
	}
	return bounded(text, mostRepeated)
}

// bounded is the beginning of a text, and text: who reads it elsewhere may refuse
// half a character. What is none stays visible, so that what is left does not
// mean something else.
func bounded(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "\uFFFD")
}

func portNumber(n int32) (uint16, bool) { return uint16(n), n >= 1 && n <= 65535 }

func protocol(p corev1.Protocol) (topology.Protocol, bool) {
	switch p {
	case corev1.ProtocolTCP, "":
		return topology.TCP, true
	case corev1.ProtocolUDP:
		return topology.UDP, true
	case corev1.ProtocolSCTP:
		return topology.SCTP, true
	}
	return 0, false
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
