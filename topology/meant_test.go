package topology

import (
	"strings"
	"testing"
)

// What is proposed for an annotation that is malformed is what was written,
// where that can be told, and never malformed itself.
func TestMeant(t *testing.T) {
	const example = `'["site"]'`
	for text, want := range map[string]string{
		"unit":                     `'["unit"]'`,
		"unit, zone":               `'["unit", "zone"]'`,
		`["unit", "zone"`:          `'["unit", "zone"]'`,
		"['unit']":                 `'["unit"]'`,
		`"unit"`:                   `'["unit"]'`,
		`["*", "unit"]`:            `'["unit", "*"]'`,
		`["*", "*"]`:               example,
		"a=b":                      example,
		`["a_"]`:                   example,
		`["a b"]`:                  `'["a", "b"]'`,
		"":                         example,
		strings.Repeat("x,", 17):   example,
		strings.Repeat("x", 1<<20): example,
	} {
		got := meant(&text)
		if got != want {
			t.Errorf("%.80q: %s, want %s", text, got, want)
		}
		proposed := strings.Trim(got, "'")
		if keys := ParseKeys(&proposed); keys.Mode != OrderedKeys {
			t.Errorf("%.80q: %s is malformed too: %s", text, got, keys.Fault)
		}
	}
	if got := meant(nil); got != example {
		t.Errorf("of nothing: %s", got)
	}
}
