package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/health/peer"
	"github.com/gridmesh/gridmesh/internal/near"
)

// page is what is known of one of SuperEdge's ConfigMaps; the zero one is nothing.
type page struct {
	Known    bool              `json:"known"`              // the API server has said
	There    bool              `json:"there,omitempty"`    // there is such a ConfigMap
	Labelled bool              `json:"labelled,omitempty"` // so that SuperEdge from v0.8 on sees it
	Data     map[string]string `json:"data,omitempty"`     // of its keys, those that are read
	Like     map[string]string `json:"like,omitempty"`     // of those that it lacks: what it has that is written nearly so
}

// fields are the keys that are read of each ConfigMap.
var fields = map[string][]string{
	names.HealthZoneConfig: {names.TaintZoneAdmission},
	names.HealthConfig:     {names.UnitInternalCheck, names.CheckUnits},
	names.HMACConfig:       {names.HMACKey, names.HMACKeyNext},
}

// pageOf makes what is kept of a ConfigMap.
func pageOf(c *corev1.ConfigMap) page {
	p := page{Known: true, There: true, Labelled: c.Labels[names.HealthConfigLabel] == names.HealthConfigLabelValue}
	var other []string
	for key := range c.Data {
		if !slices.Contains(fields[c.Name], key) {
			other = append(other, key)
		}
	}
	slices.Sort(other)
	for _, key := range fields[c.Name] {
		if value, ok := c.Data[key]; ok {
			set(&p.Data, key, meaning(key, value))
		} else if like := near.Word(key, other); like != "" {
			set(&p.Like, key, like)
		}
	}
	return p
}

// meaning is what is kept of a value: of a switch what it means, and what people are told of it.
func meaning(key, value string) string {
	if key == names.CheckUnits || key == names.HMACKey || key == names.HMACKeyNext {
		return value
	}
	return strings.ToValidUTF8(value[:min(len(value), mostSwitch)], "")
}

func set(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}

// What a ConfigMap may say at most: all of it fits into a file (mostBook).
const (
	mostUnits   = 1000
	mostHMACKey = 4096
	mostSwitch  = 128       // more than is told of it
	mostNames   = 512 << 10 // of NodeUnits, as JSON has them: a thousand of the longest, and some space
)

// check reports why a page does not count: what is in force stays so. Absent is what SuperEdge
// has a meaning for but a key: its nodes would sign with the one in its source.
func (p page) check(name string) error {
	for _, key := range []string{names.TaintZoneAdmission, names.UnitInternalCheck} {
		if n := len(p.Data[key]); n > mostSwitch {
			return fmt.Errorf("%s: it has %d bytes, %d at most", key, n, mostSwitch)
		}
	}
	if text, err := json.Marshal(p.Data[names.CheckUnits]); err != nil || len(text) > mostNames {
		return fmt.Errorf("%s: it has %d bytes as JSON, %d at most", names.CheckUnits, len(text), mostNames)
	}
	switch {
	case name == names.HealthConfig && p.There && p.Data[names.UnitInternalCheck] != "false":
		_, err := p.units()
		return err
	case name == names.HMACConfig:
		_, err := p.keys()
		return err
	}
	return nil
}

// units are the NodeUnits that vote, sorted.
func (p page) units() (list []string, err error) {
	for unit := range strings.SplitSeq(p.Data[names.CheckUnits], ",") {
		if unit = strings.TrimSpace(unit); unit == "" {
			continue // as SuperEdge reads it
		}
		if wrong := validation.IsQualifiedName(unit); len(wrong) > 0 {
			return nil, fmt.Errorf("%s: %.80q can be no NodeUnit's name, for no label is named so: write names as shop-1,shop-2", names.CheckUnits, unit)
		}
		list = append(list, unit)
		if len(list) > mostUnits {
			return nil, fmt.Errorf("%s: more than %d NodeUnits: give all of them a label with their name as its value, and gridmesh-health that label as --unit-key", names.CheckUnits, mostUnits)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// keys are one or two, of which the first signs. They are what stands there, byte for byte,
// as SuperEdge's nodes take them.
func (p page) keys() (list [][]byte, err error) {
	const cure = `put one there, for example: kubectl create configmap hmac-config --from-literal=hmackey=$(openssl rand -hex 32)`
	switch {
	case !p.There:
		return nil, errors.New("there is no such ConfigMap, and so no key: " + cure)
	case p.Data[names.HMACKey] == "" && p.Like[names.HMACKey] != "":
		return nil, fmt.Errorf("%s: there is none; %s is written nearly so", names.HMACKey, p.Like[names.HMACKey])
	case p.Data[names.HMACKey] == "":
		return nil, errors.New(names.HMACKey + ": there is no key: " + cure)
	}
	for _, field := range fields[names.HMACConfig] {
		raw := p.Data[field]
		switch {
		case raw == "" || len(list) > 0 && raw == string(list[0]):
			continue
		case len(raw) > mostHMACKey:
			return nil, fmt.Errorf("%s: it has %d bytes, %d at most", field, len(raw), mostHMACKey)
		case peer.Public([]byte(raw)):
			return nil, errors.New(field + ": it is the key in SuperEdge's source, by which everybody may speak for every node: " + cure)
		}
		list = append(list, []byte(raw))
	}
	return list, nil
}

// book is what is in force of SuperEdge's ConfigMaps, by name. It is replaced, not changed.
type book map[string]page

// grouping is who votes with whom. Of both generations' ConfigMaps the newer one counts,
// unless the unit's nodes are of the older. Nothing is known before all is.
func (b book) grouping(unitKey string, legacy peer.Dialect) (g Grouping, known bool) {
	zone, units := b[names.HealthZoneConfig], b[names.HealthConfig]
	if !zone.Known || !units.Known {
		return g, false
	}
	all := Grouping{All: true, Workers: true}
	switch {
	case b.byUnits(legacy) && units.Data[names.UnitInternalCheck] == "false":
		return all, true
	case b.byUnits(legacy):
		g.Units, _ = units.units() // it was checked
		return g, true
	case !zone.There || zone.Data[names.TaintZoneAdmission] == "false":
		return all, true
	}
	return Grouping{Key: unitKey, Workers: true}, true
}

// byUnits reports whether it is edge-health-config that counts.
func (b book) byUnits(legacy peer.Dialect) bool {
	return b[names.HealthConfig].There && (legacy != peer.G1 || !b[names.HealthZoneConfig].There)
}

// keys are those of the unit; none before they are known.
func (b book) keys() [][]byte {
	list, _ := b[names.HMACConfig].keys() // it was checked
	return list
}

// notes are what people had better know of what is in force, by ConfigMap.
func (b book) notes(legacy peer.Dialect) map[string]string {
	n := map[string]string{}
	add := func(name, text string) { n[name] = strings.TrimPrefix(n[name]+"; "+text, "; ") }
	zone, units, byUnits := b[names.HealthZoneConfig], b[names.HealthConfig], b.byUnits(legacy)
	switch {
	case zone.There && units.There && byUnits:
		add(names.HealthZoneConfig, "it does not count, for there is "+names.HealthConfig+"; with --legacy=v0.7 it does")
	case zone.There && units.There:
		add(names.HealthConfig, "it does not count, for there is "+names.HealthZoneConfig+", and --legacy=v0.7")
	}
	if g, known := b.grouping("", legacy); known && g.All {
		name := names.HealthZoneConfig
		if byUnits {
			name = names.HealthConfig
		}
		add(name, "all nodes but the control plane's are one unit, as SuperEdge has it: gridmesh-controller knows none of that, and where sites do not reach each other nobody has a majority; turn zones on, and label the nodes")
	}
	oneOf(add, names.HealthZoneConfig, names.TaintZoneAdmission, zone)
	oneOf(add, names.HealthConfig, names.UnitInternalCheck, units)
	if list, _ := units.units(); byUnits && len(list) == 0 && units.Data[names.UnitInternalCheck] != "false" {
		add(names.HealthConfig, names.CheckUnits+" has no NodeUnit, so nobody votes"+meant(units, names.CheckUnits))
	}
	for _, name := range []string{names.HealthConfig, names.HMACConfig} {
		if p := b[name]; legacy == peer.G2 && p.There && !p.Labelled {
			add(name, "SuperEdge's nodes do not see it, for it lacks the label name=edge-health, and go by what is in their source: kubectl label configmap "+name+" name=edge-health")
		}
	}
	return n
}

// oneOf tells of a switch that has neither of its two values: SuperEdge takes all but "false"
// for on.
func oneOf(add func(name, text string), name, key string, p page) {
	if value := p.Data[key]; p.There && value != "true" && value != "false" {
		add(name, fmt.Sprintf(`%s is %.40q, which counts as "true": write "true" or "false"%s`, key, value, meant(p, key)))
	}
}

func meant(p page, key string) string {
	if like := p.Like[key]; like != "" {
		return fmt.Sprintf("; %s is written nearly so", like)
	}
	return ""
}
