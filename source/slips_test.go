package source

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/gridmesh/gridmesh/topology"
)

// A field that is of a newer version, or of nobody, is told, and the object follows its file; one
// that is nearly one that exists, or at another's place, is a slip, for which it stays as it was.
func TestUnknownFieldsFreezeNothing(t *testing.T) {
	slice := func(n int, more string) string {
		return staysWeb + "---\n" + strings.NewReplacer("10.0.0.1]", fmt.Sprintf("10.0.0.%d]%s", n, more)).Replace(staysSlice)
	}
	service := func(n int, more string) string {
		return strings.Replace(staysWeb, "clusterIP: 10.96.0.1", fmt.Sprintf("clusterIP: 10.96.0.%d%s", n, more), 1)
	}
	node := func(n int, more string) string {
		return strings.Replace(staysNode, "unit: a}", fmt.Sprintf("unit: a, v: 'x%d'}%s", n, more), 1)
	}
	top := func(n int, more string) string {
		return strings.Replace(service(n, ""), "kind: Service", "kind: Service"+more, 1)
	}
	var eleven strings.Builder
	for i := range maxUnknown + 1 {
		fmt.Fprintf(&eleven, ", fresh%d: 1", i)
	}
	for name, tc := range map[string]struct {
		text    func(n int, more string) string
		more    string
		follows bool
	}{
		"a newer field of a slice":        {slice, ", weight: 3", true},
		"of its hints, beside the others": {slice, ", hints: {forRacks: [{name: r}]}", true},
		"of a Service":                    {service, ", trafficSteering: Nearest", true},
		"of a Node":                       {node, "}, fresh: {a: 1", true},
		"a slip":                          {service, ", loadBalancerSourceRange: [10.0.0.0/8]", false},
		"two":                             {service, ", internalTraficPolcy: Local", false},
		"another case":                    {service, ", ClusterIPs: []", false},
		"another's place":                 {top, ", internalTrafficPolicy: Local", false},
		"of a slice":                      {slice, ", nodename: n1", false},
		"in metadata":                     {node, ", whatever: {a: b}", false},
		"what opens a Service":            {service, ", topologyKeys: [unit]", false},
		"more than are named":             {service, eleven.String(), false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := NewDir(dir)
			write(t, dir, "m.yaml", tc.text(1, ""))
			inForce(t, d)
			was := *newest(&d.Snapshots)
			for n := 2; n < 4; n++ {
				write(t, dir, "m.yaml", tc.text(n, tc.more))
				inForce(t, d)
				is := *newest(&d.Snapshots)
				for _, p := range is.Problems {
					if want := map[bool]topology.Loss{true: topology.LostRest, false: topology.LostNewer}[tc.follows]; p.Loss != want || !strings.Contains(p.Text, "not exist") {
						t.Errorf("loss %d, want %d: %s", p.Loss, want, p)
					}
				}
				if told := len(is.Problems) > 0; !told {
					t.Error("it is not told")
				}
				was.Problems, is.Problems = nil, nil
				if same := describe(&was) == describe(&is); same == tc.follows {
					t.Errorf("%d: in force is %s", n, describe(&is))
				}
				was = is
			}
		})
	}
}

// Fields of newer versions of Kubernetes that exist by now were none of the older ones' slips.
func TestFieldsOfNewerVersionsAreNoSlips(t *testing.T) {
	for _, field := range []string{"spec.trafficDistribution", "spec.allocateLoadBalancerNodePorts"} {
		if isSlip(wordsBut(reflect.TypeFor[corev1.Service](), field), field) {
			t.Error(field)
		}
	}
	for _, field := range []string{"endpoints[0].hints.forNodes", "endpoints[0].conditions.serving"} {
		if isSlip(wordsBut(reflect.TypeFor[discoveryv1.EndpointSlice](), field), field) {
			t.Error(field)
		}
	}
}

// wordsBut are those of a type of before a field was.
func wordsBut(of reflect.Type, field string) (list []string) {
	for _, word := range wordsOf(of) {
		if word != strings.ToLower(field[strings.LastIndex(field, ".")+1:]) {
			list = append(list, word)
		}
	}
	return list
}
