package topology_test

import (
	"testing"

	. "github.com/gridmesh/gridmesh/topology"
)

func TestParseKeys(t *testing.T) {
	for text, want := range map[string]string{
		``: "", ` `: "", `[]`: "", `["site"]`: "site", `["a/b","*"]`: "a/b > *", `["site","site"]`: "site",
		`site`: "(malformed)", `["*","site"]`: "(malformed)", `[""]`: "(malformed)", `["a b"]`: "(malformed)",
		`["A.b/c"]`: "(malformed)", `["x/"]`: "(malformed)", `{"a":1}`: "(malformed)", `[1]`: "(malformed)", `null`: "(malformed)", ` null `: "(malformed)",
		`["-a"]`: "(malformed)", `["a-"]`: "(malformed)", `["a","b","c","d","e","f","g","h","i","j","k","l","m","n","o","p","q"]`: "(malformed)",
	} {
		if got := ParseKeys(&text).String(); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if ParseKeys(nil).Mode != NoKeys {
		t.Error("an absent annotation has keys")
	}
}

func FuzzParseKeys(f *testing.F) {
	f.Add(`["unit","*"]`)
	f.Fuzz(func(t *testing.T, text string) {
		keys := ParseKeys(&text)
		if keys.Mode == OrderedKeys && len(keys.List) == 0 && !keys.Any {
			t.Errorf("%q has an order without keys", text)
		}
	})
}
