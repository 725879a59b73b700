package convert

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// named are annotations with names of a form, which takes a number: as many as
// are looked at, or as many as an API server takes of one object, 256 KiB.
func named(form string, most int) map[string]string {
	list := map[string]string{}
	for size := 0; size < 256<<10 && len(list) < most; {
		name := fmt.Sprintf(form, len(list))
		list[name] = ""
		size += len(name)
	}
	return list
}

// One tenant's Service is converted beside everybody's: the worst that it can
// bear must not be felt.
func BenchmarkAnnotations(b *testing.B) {
	for name, list := range map[string]map[string]string{
		"1000 near misses": named("topology-%05x", mostNames), "1000 unknown names": named("gridmesh.io/%x", mostNames),
		"256 KiB": named("topology-%05x", 256<<10),
	} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: list}}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Service(svc)
			}
		})
	}
}
