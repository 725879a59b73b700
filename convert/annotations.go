package convert

import (
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/api/names"
)

// MaxAnnotation bounds what is kept of a topologyKeys annotation: 16 keys of
// at most 317 characters, with room for spaces. More is malformed anyway.
const MaxAnnotation = 8 << 10

// topologyKeys returns the annotation, and how its name is written where that
// is mistyped. Names are only looked at where the right one is not there.
func topologyKeys(annotations map[string]string) (keys *string, misspelt string) {
	text, found := annotations[names.TopologyKeys]
	if !found {
		for name, value := range annotations {
			if (misspelt == "" || name < misspelt) && mistyped(name) {
				text, misspelt, found = value, name, true
			}
		}
	}
	if !found {
		return nil, ""
	}
	if len(text) > MaxAnnotation {
		text = text[:MaxAnnotation]
	}
	return &text, misspelt
}

// MeansTopologyKeys reports whether an annotation's name is topologyKeys, or
// can only be meant for it.
func MeansTopologyKeys(name string) bool { return name == names.TopologyKeys || mistyped(name) }

// far is from how many letters on a name is another word.
const far = 3

// mistyped reports whether an annotation's name can only be meant for
// topologyKeys: without a prefix, or with one that people might expect it to
// have; and the word, but for case and separators, nearly the same.
func mistyped(name string) bool {
	prefix, word, prefixed := strings.Cut(name, "/")
	if !prefixed {
		word = prefix
	}
	if len(word) > 2*len(names.TopologyKeys) || prefixed && !expected(prefix) {
		return false
	}
	return distance(plain(word), plain(names.TopologyKeys)) < far
}

// expected reports whether a prefix is gridmesh's, SuperEdge's or Kubernetes'
// own; below the last, everybody has annotations.
func expected(prefix string) bool {
	prefix = strings.ToLower(prefix)
	return prefix == "kubernetes.io" || prefix == "k8s.io" ||
		slices.ContainsFunc([]string{names.Domain, names.SuperEdgeDomain}, func(domain string) bool {
			return prefix == domain || strings.HasSuffix(prefix, "."+domain)
		})
}

var separators = strings.NewReplacer("-", "", "_", "", ".", "")

func plain(word string) string { return separators.Replace(strings.ToLower(word)) }

// distance is how many letters have to be put in, left out or changed to make
// one word of another (Levenshtein), or at least far.
func distance(a, b string) int {
	if len(a)-len(b) >= far || len(b)-len(a) >= far {
		return far
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

// ours are the annotations under names.Domain that something reads or writes.
var ours = []string{names.UnitKey, names.Unit, names.Applied, names.AppliedAt, names.Settled, names.Replicas, names.UnitGone}

// strangers are annotations of a Service that bear gridmesh's name and that
// nothing reads: who wrote one thinks that it does something.
func strangers(annotations map[string]string, problem func(field, format string, args ...any)) {
	const most = 3
	var found []string
	for name := range annotations {
		if strings.HasPrefix(name, names.Domain+"/") && !slices.Contains(ours, name) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	for _, name := range found[:min(len(found), most)] {
		problem("metadata.annotations["+name+"]", "is no annotation that gridmesh knows, and does nothing; to keep traffic in units use %s, else remove it", names.TopologyKeys)
	}
}
