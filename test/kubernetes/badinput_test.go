package kubernetes

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// What the API server lets pass: it is named on the node, and the rest goes on.
func TestBadInputFromTheAPIServer(t *testing.T) {
	good := deploy(t, "sober")
	good.closedEverywhere(t)
	ctx := patient(t)
	services, slices := c.Kube.CoreV1().Services("default"), c.Kube.DiscoveryV1().EndpointSlices("default")
	create := func(name, keys string) *corev1.Service {
		s, err := services.Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"topologyKeys": keys}},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "main", Port: 80}}},
		}, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() { must(t, services.Delete(patient(t), name, metav1.DeleteOptions{})) })
		return s
	}
	longest := strings.Repeat("n", 63)
	create("bare", "unit")
	create("huge", `["`+strings.Repeat("x", 200<<10)+`"]`)
	create("illegal", `["unit", "a b"]`)
	create(longest, `["unit"`)
	crowd := create("crowd", `["unit"]`)

	// 5000 endpoints of this unit by hand, in as many slices as it takes.
	node, main, port := "a-1", "main", int32(8080)
	for i := range 5 {
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: fmt.Sprintf("crowd-%d", i), Labels: map[string]string{discoveryv1.LabelServiceName: crowd.Name}},
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &main, Port: &port}},
		}
		for j := range 1000 {
			ip := netip.AddrFrom4([4]byte{10, 99, byte(i*4 + j/250), byte(1 + j%250)})
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip.String()}, NodeName: &node})
		}
		_, err := slices.Create(ctx, slice, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() {
			must(t, slices.Delete(patient(t), slice.Name, metav1.DeleteOptions{}))
		})
	}
	n := c.Nodes["a-2"]
	wait.Eventually(t, func() error {
		text, err := n.Admin("/clusters")
		if got := strings.Count(text, crowd.Spec.ClusterIP+":80::10.99."); err == nil && got < 5000 {
			err = fmt.Errorf("Envoy has %d lines of the crowd's endpoints", got)
		}
		return err
	})
	var out []byte
	wait.Eventually(t, func() (err error) {
		out, err = n.Run("status")
		for _, name := range []string{"bare", "huge", "illegal", longest} {
			if err == nil && !strings.Contains(string(out), "problem     service default/"+name+": metadata.annotations[topologyKeys]: ") {
				err = fmt.Errorf("status does not name %s:\n%.4000s", name, out)
			}
		}
		return err
	})
	if len(out) > 32<<10 {
		t.Errorf("status has %d bytes", len(out))
	}
	good.closedEverywhere(t)
}
