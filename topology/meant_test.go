package topology

import (
	"strings"
	"testing"
)

// The label that may be meant for a key that no node has follows the nodes, in a
// viewer as in a view that is made anew.
func TestProposedLabelFollowsTheNodes(t *testing.T) {
	b, keys := NewBuilder(), `["unti"]`
	b.SetService(&Service{Key: ObjectKey{"default", "web"}, TopologyKeys: &keys})
	b.SetNode(&Node{Name: "a1"})
	v := NewViewer("a1", Options{})
	for _, step := range []struct {
		labels map[string]string
		want   string // what is proposed
	}{
		{map[string]string{"rack": "r"}, "; mend the key"},
		{map[string]string{"unit": "a"}, "; did you mean unit?"},
		{map[string]string{"unit": ""}, "; mend the key"},
		{map[string]string{"uniti": "a"}, "; did you mean uniti?"},
		{map[string]string{"unti": "a"}, ""},
		{map[string]string{"unit": "b"}, "; did you mean unit?"},
	} {
		b.SetNode(&Node{Name: "a2", Labels: step.labels})
		s := b.Build()
		for how, view := range map[string]*View{"from before": v.See(s), "anew": See(s, "a1", Options{})} {
			sv, _ := view.Services.Get(ObjectKey{"default", "web"})
			if got := sv.KeyOfNobody(); !strings.Contains(got, step.want) || (got == "") != (step.want == "") {
				t.Errorf("%v, %s: %q, want %q", step.labels, how, got, step.want)
			}
		}
	}
}

// A key that no node has is known by itself, not by what a problem says: objects bring
// problems of their own.
func TestKeyOfNobodyIsNoText(t *testing.T) {
	b, site, racks := NewBuilder(), `["site"]`, `["rack", "row"]`
	b.SetNode(&Node{Name: "a1", Labels: map[string]string{"site": "a"}})
	others := []Problem{{Object: "service default/web", Field: "spec", Text: "no node has the label that somebody wrote here"}}
	for keys, want := range map[*string]string{nil: "", &site: "", &racks: "no node has the label rack: nobody is in a unit of it; mend the key, or label the nodes"} {
		b.SetService(&Service{Key: ObjectKey{"default", "web"}, TopologyKeys: keys, Problems: others})
		sv, _ := See(b.Build(), "a1", Options{}).Services.Get(ObjectKey{"default", "web"})
		if got := sv.KeyOfNobody(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What is proposed for an annotation that is malformed is what was written,
// where that can be told, and never malformed itself.
func TestMeant(t *testing.T) {
	const example = `'["unit"]'`
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
