package plan

import (
	"maps"
	"slices"
)

// differFixed lists the fields that Kubernetes does not change of a child once it
// is made (Kind.fixed), and that are another in a template than in the live one.
// Where nobody says what one is, it has its default.
func (k *Kind) differFixed(wanted, live Object) (fields []string) {
	if live["selector"] == nil {
		return nil // no API server has such a workload: it was abridged
	}
	for _, field := range slices.Sorted(maps.Keys(k.fixed)) {
		w, l := undefaulted(wanted[field]), undefaulted(live[field])
		if w == nil {
			w = k.fixed[field]
		}
		if l == nil {
			l = k.fixed[field]
		}
		if len(differences("", w, l)) > 0 || besides(w, l) {
			fields = append(fields, field)
		}
	}
	return fields
}

// besides reports whether a live value has what a wanted one does not: of claims, one
// more. What one of them has besides a webhook may have put there, and put there
// again.
func besides(wanted, live any) bool {
	if claims, ok := live.([]any); ok {
		want, _ := wanted.([]any)
		return len(claims) != len(want)
	}
	return len(differences("", live, wanted)) > 0
}

// undefaulted leaves out of volumeClaimTemplates what the API server writes there
// itself; other values are as they were.
func undefaulted(v any) any {
	claims, ok := v.([]any)
	if !ok {
		return v
	}
	out := make([]any, len(claims))
	for i, item := range claims {
		claim, _ := item.(Object)
		claim = without(without(without(without(claim, "apiVersion"), "kind"), "status"), "metadata", "creationTimestamp")
		if value[string](claim, "spec", "volumeMode") == "Filesystem" {
			claim = without(claim, "spec", "volumeMode")
		}
		out[i] = claim
	}
	return out
}
