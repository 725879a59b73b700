package jsontype

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	kubejson "sigs.k8s.io/json"
)

// wide has kinds of fields that objects of Kubernetes seldom have, or never.
type wide struct {
	Bytes []byte           `json:"bytes"`
	Small uint8            `json:"small"`
	Ratio float64          `json:"ratio"`
	Any   any              `json:"any"`
	Pair  *[2]int16        `json:"pair"`
	Deep  []map[string]int `json:"deep"`
}

var types = map[string]reflect.Type{
	"wide":       reflect.TypeFor[wide](),
	"service":    reflect.TypeFor[corev1.Service](),
	"node":       reflect.TypeFor[corev1.Node](),
	"slice":      reflect.TypeFor[discoveryv1.EndpointSlice](),
	"secret":     reflect.TypeFor[corev1.Secret](),
	"deployment": reflect.TypeFor[appsv1.Deployment](),
}

func parse(t testing.TB, text string) (v any) {
	t.Helper()
	if err := utiljson.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// misfits are values of a type, and what is told of each, with its path.
var misfits = []struct {
	of, text string
	want     []string
}{
	{"service", `null`, nil},
	{"service", `{"metadata": {"name": "web", "creationTimestamp": null}, "spec": {"ports": [{"port": 80, "targetPort": "http"}, {"port": 81, "targetPort": 8080}], "selector": null}}`, nil},
	{"deployment", `{"spec": {"replicas": 2.0, "template": {"spec": {"terminationGracePeriodSeconds": 1e16}}}}`, nil},
	{"wide", `{"bytes": "AAEC", "small": 255, "ratio": 1, "any": [{}], "pair": [1, 2], "deep": [{"a": 1}, null]}`, nil},

	{"service", `[]`, []string{": is a list; an object is wanted"}},
	{"service", `{"spec": {"ports": {"port": 80}}}`, []string{"spec.ports: is an object; a list is wanted: begin it with -"}},
	{"service", `{"spec": {"ports": [{"port": "80"}, {"port": "http"}, {"port": 1.5}, {"port": 3000000000}]}}`, []string{
		`spec.ports[0].port: is a string, "80"; an integer is wanted: write 80, without quotes`,
		`spec.ports[1].port: is a string, "http"; an integer is wanted`,
		"spec.ports[2].port: is 1.5, a number; an integer is wanted",
		"spec.ports[3].port: is 3000000000, and no more than 32 bits are kept of it; give a smaller number",
	}},
	{"service", `{"spec": {"ports": [{"targetPort": {}}]}}`, []string{"spec.ports[0].targetPort: is an object; an integer or a string is wanted, as 8080, http or 25%"}},
	{"service", `{"spec": {"publishNotReadyAddresses": "yes"}}`, []string{`spec.publishNotReadyAddresses: is a string, "yes"; true or false is wanted`}},
	{"service", `{"spec": {"selector": {"a": 1, "b": true, "c": ["x"], "d": 0.5}}}`, []string{
		`spec.selector[a]: is a number; a string is wanted: put it in quotes, as it is meant`,
		`spec.selector[b]: is a boolean; a string is wanted: put it in quotes, as it is meant`,
		"spec.selector[c]: is a list; a string is wanted",
		`spec.selector[d]: is a number; a string is wanted: put it in quotes, as it is meant`,
	}},
	{"service", `{"metadata": {"annotations": {"topologyKeys": ["site"]}}}`, []string{`metadata.annotations[topologyKeys]: is a list; a string is wanted: write '["site"]', in quotes`}},
	{"service", `{"metadata": {"annotations": {"topologyKeys": [15]}}}`, []string{`metadata.annotations[topologyKeys]: is a list; a string is wanted`}},
	{"service", `{"metadata": {"creationTimestamp": "today"}}`, []string{`metadata.creationTimestamp: is a string, "today"; a time is wanted, as 2026-01-31T12:00:00Z`}},
	{"node", `{"status": {"capacity": {"cpu": "lots"}}}`, []string{`status.capacity[cpu]: is a string, "lots"; a quantity is wanted, as 100m or 2Gi`}},
	{"node", `{"metadata": "0123456789012345678901234567890123456789 and more"}`, []string{`metadata: is a string, "0123456789012345678901234567890123456789"...; an object is wanted`}},
	{"node", `{"metadata": {"nam": "a"}, "b.c": 1}`, []string{`b.c: is no field of Node`, `metadata.nam: is no field of ObjectMeta`}},
	{"wide", `{"bytes": "?", "small": 256, "ratio": "1"}`, []string{
		`bytes: is a string, "?"; text in base64 is wanted`,
		"ratio: is a string, \"1\"; a float64 is wanted: json: cannot unmarshal string into Go value of type float64",
		"small: is 256, a number; a uint8 is wanted: json: cannot unmarshal number 256 into Go value of type uint8",
	}},
}

func TestMisfits(t *testing.T) {
	for _, tc := range misfits {
		var got []string
		for m := range Misfits(parse(t, tc.text), types[tc.of], nil) {
			got = append(got, m.Path+": "+m.Text())
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s %s:\n%q\nwant\n%q", tc.of, tc.text, got, tc.want)
		}
	}
}

// What a reader of YAML made of a text is told as the text, where it is known.
func TestWritten(t *testing.T) {
	for _, tc := range []struct{ value, written, want string }{
		{`15`, "0017", `is 0017, a number; a string is wanted: write "0017", in quotes`},
		{`1000`, "1e3", `is 1e3, a number; a string is wanted: write "1e3", in quotes`},
		{`false`, "no", `is no, which YAML takes for false; a string is wanted: write "no", in quotes`},
		{`true`, "true", `is true; a string is wanted: write "true", in quotes`},
		{`1`, strings.Repeat("0", few) + "1", "is a number; a string is wanted: put it in quotes, as it is meant"},
	} {
		for m := range Misfits(parse(t, tc.value), reflect.TypeFor[string](), nil) {
			if m.Written = tc.written; m.Text() != tc.want {
				t.Errorf("%s: %s\nwant %s", tc.written, m.Text(), tc.want)
			}
		}
	}
}

// A field that does not exist is named as it is written, with the struct that
// has none such; who has seen enough is not given more.
func TestUnknownFields(t *testing.T) {
	v := parse(t, `{"metadata": {"a.b": 1, "c": 2, "d": 3}}`)
	var seen []Misfit
	for m := range Misfits(v, types["node"], nil) {
		if seen = append(seen, m); len(seen) == 2 {
			break
		}
	}
	if len(seen) != 2 || !seen[0].Unknown || seen[0].Name != "a.b" || seen[0].Type.Name() != "ObjectMeta" || seen[1].Name != "c" {
		t.Errorf("%+v", seen)
	}
}

// What a type holds of another is read into that one.
func TestInstead(t *testing.T) {
	v := parse(t, `{"spec": {"count": "3"}}`)
	instead := map[reflect.Type]reflect.Type{reflect.TypeFor[corev1.ServiceSpec](): reflect.TypeFor[outer]()}
	var paths []string
	for m := range Misfits(v, types["service"], instead) {
		paths = append(paths, m.Path)
	}
	if !slices.Equal(paths, []string{"spec.count"}) {
		t.Errorf("%q", paths)
	}
}

// FuzzMisfits compares with the decoder: it refuses what a misfit is told of,
// and nothing else, and so with the fields that do not exist.
func FuzzMisfits(f *testing.F) {
	for _, tc := range misfits {
		f.Add(tc.of, []byte(tc.text))
	}
	f.Fuzz(func(t *testing.T, of string, text []byte) {
		var v any
		if types[of] == nil || utiljson.Unmarshal(text, &v) != nil {
			return
		}
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		strict, refused := kubejson.UnmarshalStrict(data, reflect.New(types[of]).Interface())
		var unfit, unknown int
		for m := range Misfits(v, types[of], nil) {
			if m.Text() == "" {
				t.Errorf("%s: nothing is told of it", m.Path)
			}
			if m.Unknown {
				unknown++
			} else {
				unfit++
			}
		}
		if (refused != nil) != (unfit > 0) || refused == nil && (len(strict) > 0) != (unknown > 0) {
			t.Errorf("%s %s\nthe decoder says %v and %v; %d misfits, %d unknown", of, data, refused, strict, unfit, unknown)
		}
	})
}
