package plan

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Limits of names that Kubernetes derives from a StatefulSet's: its pods carry
// a label with name and revision hash, and have a hostname.
const (
	maxSetName = 52
	maxPodName = 63
	hashLen    = 8
)

// plainName is SuperEdge's name of a unit's child.
func plainName(grid, unit string) string { return grid + "-" + unit }

// serviceName is SuperEdge's name of a ServiceGrid's Service.
func serviceName(grid, _ string) string { return grid + serviceSuffix }

const serviceSuffix = "-svc"

// hashedName is the name where the plain one is taken or no name at all.
func hashedName(grid, unit string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, plainName(grid, unit))
	if most := maxPodName - hashLen - 1; len(clean) > most {
		clean = clean[:most]
	}
	return strings.Trim(clean, "-") + "-" + digest(grid+"\x00"+unit, hashLen)
}

// badName says why a name cannot be an object's, or "".
func badName(name string) string {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return fmt.Sprintf("%q is no name of an object: it may have lower case letters, digits, '-' and '.', and %d characters", name, validation.DNS1123SubdomainMaxLength)
	}
	return ""
}

// badSetName says why a name cannot be a StatefulSet's, or "". Its pods have it
// in their hostnames, so it is a label of DNS (Kubernetes 1.36 refuses others).
func badSetName(name string, replicas int64) string {
	pod := fmt.Sprintf("%s-%d", name, max(replicas-1, 0))
	switch {
	case strings.Contains(name, "."):
		return fmt.Sprintf("%q has a dot, and a StatefulSet's name is part of its pods' hostnames: rename the grid (metadata.name), or label the unit's nodes with a value without a dot", name)
	case len(name) > maxSetName:
		return fmt.Sprintf("%q has %d characters, a StatefulSet's name at most %d: shorten the grid's name or the unit's", name, len(name), maxSetName)
	case len(pod) > maxPodName:
		return fmt.Sprintf("its pod %q has %d characters, a pod's name at most %d: shorten the grid's name or the unit's", pod, len(pod), maxPodName)
	}
	return ""
}

// badSetGrid says why no unit of a grid of that name has a StatefulSet, or "".
func badSetGrid(name string) string {
	most := maxSetName - len(plainName("", "u")) // of a unit that is called by a letter
	switch {
	case strings.Contains(name, "."):
		return "has a dot, and a StatefulSet's name, which begins with it, is part of its pods' hostnames; choose one without"
	case len(name) > most:
		return fmt.Sprintf("has %d characters, at most %d fit: a StatefulSet's name, which is this and the unit's, has %d at most; choose a shorter one", len(name), most, maxSetName)
	}
	return ""
}

// badServiceName says why a name cannot be a Service's, or "".
func badServiceName(name string, _ int64) string {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return fmt.Sprintf("metadata.name: %q is no name of a Service: rename the grid with lower case letters, digits and '-' alone", name)
	}
	return ""
}

// keyLabel is the value of the label superedge.io/grid-uniq-key: the unit key
// where that is a label value, else with ".." for the slash, else a hash.
func keyLabel(key string) string {
	if len(validation.IsValidLabelValue(key)) == 0 {
		return key
	}
	if dotted := strings.Replace(key, "/", "..", 1); len(validation.IsValidLabelValue(dotted)) == 0 {
		return dotted
	}
	return "sha256-" + digest(key, 32)
}
