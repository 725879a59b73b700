package mutate

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Shield is until when nodes are shielded, by their names: the NodeTable names.Shield.
type Shield map[string]time.Time

// ParseShield reads the data of the NodeTable, and names in order those whose value is no
// time (RFC 3339): they are not shielded.
func ParseShield(data map[string]string) (s Shield, wrong []string) {
	s = make(Shield, len(data))
	for node, value := range data {
		until, err := time.Parse(time.RFC3339, value)
		if err != nil {
			wrong = append(wrong, node)
			continue
		}
		s[node] = until
	}
	slices.Sort(wrong)
	return s, wrong
}

// refuses says why a write about a node, made at some time, is left as it is; "" where
// it is taken back.
func (s Shield) refuses(node string, at time.Time) Reason {
	until, ok := s[node]
	switch {
	case !ok:
		return Unshielded
	case at.IsZero():
		return Undated
	case !until.After(at):
		return Expired
	}
	return ""
}

// written is when the API server took a write, by its own clock; zero where it does not say.
func written(m metav1.ObjectMeta) (at time.Time) {
	for _, f := range m.ManagedFields {
		if f.Time != nil && f.Time.After(at) {
			at = f.Time.Time
		}
	}
	return at
}
