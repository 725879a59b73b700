package health

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/api/names"
)

func configMap(name, key, value string) page {
	return pageOf(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{key: value}})
}

// Who may write one of SuperEdge's ConfigMaps, and fills it, takes no key from nodes that start
// without a cloud.
func TestAFullConfigMapTakesNoKey(t *testing.T) {
	const key = "0123456789abcdef"
	full := strings.Repeat("<", 200_000) // JSON has six bytes for each
	for name, p := range map[string]page{
		names.HealthZoneConfig: configMap(names.HealthZoneConfig, names.TaintZoneAdmission, full),
		names.HealthConfig:     configMap(names.HealthConfig, names.UnitInternalCheck, full),
		"names that do not count": pageOf(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: names.HealthConfig}, Data: map[string]string{
			names.UnitInternalCheck: "false", names.CheckUnits: full,
		}}),
		"names that are none": configMap(names.HealthConfig, names.CheckUnits, strings.Repeat(",", 1<<20)),
	} {
		of := names.HealthConfig
		if name == names.HealthZoneConfig {
			of = name
		}
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "unit.superedge")
			f := newFollowed(file)
			f.begin()
			f.see(names.HMACConfig, configMap(names.HMACConfig, names.HMACKey, key))
			f.see(of, p)
			f.see(names.HMACConfig, configMap(names.HMACConfig, names.HMACKey, key+key))
			again := newFollowed(file)
			again.begin()
			if got, want := again.state(), "key "+key+key; !strings.HasPrefix(got, want) {
				t.Errorf("after a start without a cloud: %s, want %s\n%.1000s", got, want, again.log.String())
			}
		})
	}
}

// Of a switch its meaning is kept, and what people are told of it.
func TestWhatIsKeptOfASwitch(t *testing.T) {
	f := newFollowed("")
	f.begin()
	f.see(names.HealthConfig, page{Known: true})
	for value, all := range map[string]bool{"true": false, "false": true, "False": false, strings.Repeat("é", 100): false, "false" + strings.Repeat(" ", 100): false} {
		f.see(names.HealthZoneConfig, configMap(names.HealthZoneConfig, names.TaintZoneAdmission, value))
		if got := f.state(); !strings.HasSuffix(got, fmt.Sprintf("all %v; faults []", all)) {
			t.Errorf("%q: %s", value, got)
		}
	}
	if f.log.Count(strings.Repeat("é", 40)) != 1 || f.log.Count(strings.Repeat("é", 41)) != 0 {
		t.Error(f.log.String())
	}
}

// The most that ConfigMaps may say is read again.
func TestTheLargestBookIsRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "unit.superedge")
	flag, key := strings.Repeat("<", mostSwitch), strings.Repeat("<", mostHMACKey-1)
	b := book{
		names.HealthZoneConfig: {Known: true, There: true, Data: map[string]string{names.TaintZoneAdmission: flag}},
		names.HealthConfig:     {Known: true, There: true, Data: map[string]string{names.UnitInternalCheck: "false", names.CheckUnits: strings.Repeat("<", mostNames/6-1)}},
		names.HMACConfig:       {Known: true, There: true, Data: map[string]string{names.HMACKey: key + "a", names.HMACKeyNext: key + "b"}},
	}
	for name, p := range b {
		if err := p.check(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for of := range p.Data {
			larger := page{Known: true, There: true, Data: map[string]string{names.UnitInternalCheck: "false", names.HMACKey: key}}
			if larger.Data[of] = p.Data[of] + "<<"; larger.check(name) == nil && p.Data[of] != "false" {
				t.Errorf("%s may be larger", of)
			}
		}
	}
	if err := writeBook(file, "edge-system", b); err != nil {
		t.Fatal(err)
	}
	if got, err := readBook(file, "edge-system"); err != nil || string(got.keys()[1]) != key+"b" {
		t.Error(err)
	}
}

// What would not be read is not written: the last good file stays.
func TestWhatIsNotReadIsNotWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "unit")
	good := Unit{Name: "a", Members: []Member{{Name: "a-1"}}}
	if err := writeUnit(file, good); err != nil {
		t.Fatal(err)
	}
	if err := writeUnit(file, Unit{Name: "a", Members: []Member{{Name: strings.Repeat("a", mostKept)}}}); err == nil || !strings.Contains(err.Error(), "are the most") {
		t.Errorf("a unit that is too large: %v", err)
	}
	if u, err := readUnit(file); err != nil || u == nil || len(u.Members) != 1 || u.Members[0].Name != "a-1" {
		t.Errorf("kept is %v, %v", u, err)
	}
	book1 := book{names.HMACConfig: configMap(names.HMACConfig, names.HMACKey, "0123456789abcdef")}
	if err := writeBook(file, "edge-system", book1); err != nil {
		t.Fatal(err)
	}
	if err := writeBook(file, "edge-system", book{names.HMACConfig: configMap(names.HMACConfig, names.HMACKey, strings.Repeat("<", mostBook/6))}); err == nil || !strings.Contains(err.Error(), "are the most") {
		t.Errorf("a book that is too large: %v", err)
	}
	if got, err := readBook(file, "edge-system"); err != nil || string(got.keys()[0]) != "0123456789abcdef" {
		t.Errorf("kept is %v", err)
	}
}
