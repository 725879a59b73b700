package health

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/health/peer"
)

// bookOf is what manifests say, of which each document is a ConfigMap. What they do not have
// is not there.
func bookOf(t *testing.T, manifests string) book {
	t.Helper()
	b := book{names.HealthZoneConfig: {Known: true}, names.HealthConfig: {Known: true}, names.HMACConfig: {Known: true}}
	for _, doc := range strings.Split(manifests, "---") {
		c := &corev1.ConfigMap{}
		if err := yaml.UnmarshalStrict([]byte(doc), c); err != nil {
			t.Fatal(err)
		}
		if c.Name != "" {
			b[c.Name] = pageOf(c)
		}
	}
	return b
}

const (
	zonesOn  = `{metadata: {name: edge-health-zone-config}, data: {TaintZoneAdmission: "true"}}`
	zonesOff = `{metadata: {name: edge-health-zone-config}, data: {TaintZoneAdmission: "false"}}`
	unitsOn  = `{metadata: {name: edge-health-config, labels: {name: edge-health}}, data: {unit-internal-check: "true", check-units: "shop-2, shop-1,,shop-1"}}`
	unitsOff = `{metadata: {name: edge-health-config, labels: {name: edge-health}}, data: {unit-internal-check: "false", check-units: "shop-1"}}`
)

// Who votes with whom, by SuperEdge's ConfigMaps of both generations, as its edge-health reads them.
func TestSuperEdgesGroupings(t *testing.T) {
	all := Grouping{All: true, Workers: true}
	zones := Grouping{Key: names.HealthZone, Workers: true}
	units := Grouping{Units: []string{"shop-1", "shop-2"}}
	for _, tt := range []struct {
		name, manifests string
		legacy          peer.Dialect
		want            Grouping
	}{
		{"no ConfigMap", "", peer.None, all},
		{"zones", zonesOn, peer.None, zones},
		{"no zones", zonesOff, peer.None, all},
		{"zones without a value", `{metadata: {name: edge-health-zone-config}}`, peer.None, zones},
		{"zones of another value", `{metadata: {name: edge-health-zone-config}, data: {TaintZoneAdmission: "False"}}`, peer.None, zones},
		{"units", unitsOn, peer.None, units},
		{"no units", unitsOff, peer.None, all},
		{"units without a switch", `{metadata: {name: edge-health-config}, data: {check-units: "shop-1,shop-2"}}`, peer.None, units},
		{"units of which there are none", `{metadata: {name: edge-health-config}}`, peer.None, Grouping{}},
		{"both, the newer counts", zonesOff + "\n---\n" + unitsOn, peer.None, units},
		{"both, beside the newer", zonesOff + "\n---\n" + unitsOn, peer.G2, units},
		{"both, beside the older", zonesOff + "\n---\n" + unitsOn, peer.G1, all},
		{"the newer alone, beside the older", unitsOn, peer.G1, units},
	} {
		b := bookOf(t, tt.manifests)
		for name, p := range b {
			if err := p.check(name); err != nil && name != names.HMACConfig {
				t.Errorf("%s: %s: %v", tt.name, name, err)
			}
		}
		if g, known := b.grouping(names.HealthZone, tt.legacy); !known || !g.equal(tt.want) {
			t.Errorf("%s: %+v, %v", tt.name, g, known)
		}
	}
	b := bookOf(t, zonesOn)
	delete(b, names.HealthConfig)
	if g, known := b.grouping(names.HealthZone, peer.None); known {
		t.Errorf("the API server has not said yet whether there is the other one: %+v", g)
	}
}

// A key is what stands there, byte for byte; the second one is gridmesh's own.
func TestSuperEdgesKeys(t *testing.T) {
	for manifest, want := range map[string]string{
		`{metadata: {name: hmac-config}, data: {hmackey: "0123456789abcdef\n"}}`:                                 "0123456789abcdef\n",
		`{metadata: {name: hmac-config}, data: {hmackey: 0123456789abcdef, hmackey-next: fedcba9876543210}}`:     "0123456789abcdef|fedcba9876543210",
		`{metadata: {name: hmac-config}, data: {hmackey: 0123456789abcdef, hmackey-next: ""}}`:                   "0123456789abcdef",
		`{metadata: {name: hmac-config}, data: {hmackey: "0123456789abcdef", hmackey-next: "0123456789abcdef"}}`: "0123456789abcdef",
	} {
		var got []string
		for _, key := range bookOf(t, manifest).keys() {
			got = append(got, string(key))
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%s: %q", manifest, got)
		}
	}
}

// What is wrong with a ConfigMap is told with its field, and what to do.
func TestSuperEdgesMistakes(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("u,", mostUnits+1), ",")
	for manifest, want := range map[string]string{
		"": "there is no such ConfigMap, and so no key: put one there",
		`{metadata: {name: hmac-config}, data: {}}`:                                                                "hmackey: there is no key: put one there",
		`{metadata: {name: hmac-config}, data: {hmacKey: 0123456789abcdef}}`:                                       "hmackey: there is none; hmacKey is written nearly so",
		`{metadata: {name: hmac-config}, data: {hmackey: hSZbJsKAVmWTxRPi}}`:                                       "hmackey: it is the key in SuperEdge's source, by which everybody may speak for every node: put one there",
		`{metadata: {name: hmac-config}, data: {hmackey: 0123456789abcdef, hmackey-next: hSZbJsKAVmWTxRPi}}`:       "hmackey-next: it is the key in SuperEdge's source",
		`{metadata: {name: hmac-config}, data: {hmackey: ` + strings.Repeat("k", mostHMACKey+1) + `}}`:             "hmackey: it has 4097 bytes, 4096 at most",
		`{metadata: {name: edge-health-config}, data: {check-units: "shop-1,shop 2"}}`:                             `check-units: "shop 2" can be no NodeUnit's name, for no label is named so: write names as shop-1,shop-2`,
		`{metadata: {name: edge-health-config}, data: {check-units: "` + many + `"}}`:                              "check-units: more than 1000 NodeUnits: give all of them a label with their name as its value",
		`{metadata: {name: edge-health-config}, data: {unit-internal-check: "false", check-units: "not, read /"}}`: "",
	} {
		name, b := names.HMACConfig, bookOf(t, manifest)
		if b[names.HealthConfig].There {
			name = names.HealthConfig
		}
		if got := fmt.Sprint(b[name].check(name)); want != "" && !strings.HasPrefix(got, want) || want == "" && got != "<nil>" {
			t.Errorf("%.80s: %s, want %s", manifest, got, want)
		}
	}
}

// What counts, and may not be meant, is told.
func TestSuperEdgesNotes(t *testing.T) {
	const key = "\n---\n" + `{metadata: {name: hmac-config}, data: {hmackey: 0123456789abcdef}}`
	for _, tt := range []struct {
		manifests string
		legacy    peer.Dialect
		want      map[string]string
	}{
		{zonesOn + key, peer.None, nil},
		{zonesOn + key, peer.G2, map[string]string{names.HMACConfig: "lacks the label name=edge-health"}},
		{"", peer.None, map[string]string{names.HealthZoneConfig: "all nodes but the control plane's are one unit"}},
		{unitsOff, peer.None, map[string]string{names.HealthConfig: "all nodes but the control plane's are one unit"}},
		{unitsOn + "\n---\n" + zonesOn, peer.None, map[string]string{names.HealthZoneConfig: "does not count, for there is edge-health-config"}},
		{unitsOn + "\n---\n" + zonesOn, peer.G1, map[string]string{names.HealthConfig: "does not count, for there is edge-health-zone-config"}},
		{`{metadata: {name: edge-health-zone-config}, data: {taintZoneAdmission: "false"}}`, peer.None, map[string]string{names.HealthZoneConfig: `TaintZoneAdmission is "", which counts as "true": write "true" or "false"; taintZoneAdmission is written nearly so`}},
		{`{metadata: {name: edge-health-config}, data: {unit-internal-check: "true", checkunits: a}}`, peer.None, map[string]string{names.HealthConfig: "check-units has no NodeUnit, so nobody votes; checkunits is written nearly so"}},
	} {
		got := bookOf(t, tt.manifests).notes(tt.legacy)
		if len(got) != len(tt.want) {
			t.Errorf("%s, %q: %v", tt.manifests, tt.legacy, got)
		}
		for name, text := range tt.want {
			if !strings.Contains(got[name], text) {
				t.Errorf("%s, %q: %s: %q, want %q", tt.manifests, tt.legacy, name, got[name], text)
			}
		}
	}
}

// Of a ConfigMap only the keys that are read are kept, and no other's values.
func TestPagesAreSmall(t *testing.T) {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: names.HMACConfig}, Data: map[string]string{"hmackey": "k", "other": strings.Repeat("x", 1<<20)}}
	if got, want := pageOf(c), (page{Known: true, There: true, Data: map[string]string{"hmackey": "k"}}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// Whatever is in the file of a node, what is believed of it is what a ConfigMap may say.
func FuzzBook(f *testing.F) {
	f.Add([]byte(`{"version":1,"namespace":"edge-system","maps":{"hmac-config":{"known":true,"there":true,"data":{"hmackey":"0123456789abcdef"}},"edge-health-config":{"known":true,"there":true,"data":{"check-units":"a,b"}},"edge-health-zone-config":{"known":true}}}`))
	f.Add([]byte(`{"version":1,"namespace":"edge-system","maps":{"hmac-config":{"known":true}}}`))
	f.Add([]byte(`{"version":1,"namespace":"edge-system","maps":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := decodeBook(data, "edge-system")
		if err != nil {
			return
		}
		for _, legacy := range []peer.Dialect{peer.None, peer.G1, peer.G2} {
			g, _ := b.grouping("unit", legacy)
			b.notes(legacy)
			if len(g.Units) > mostUnits {
				t.Errorf("%d units", len(g.Units))
			}
		}
		for _, key := range b.keys() {
			if len(key) == 0 || len(key) > mostHMACKey || peer.Public(key) {
				t.Errorf("%q is a key", key)
			}
		}
		if p, ok := b[names.HMACConfig]; ok && len(b.keys()) == 0 {
			t.Errorf("%+v is believed", p)
		}
	})
}
