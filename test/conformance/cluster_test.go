package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// A plugin comes behind those that are there, and what is no network stays as
// it is.
func TestAddPlugin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "10-lab.conflist")
	for text, want := range map[string]int{
		`{"name": "lab", "plugins": [{"type": "bridge"}]}`: 2,
		`{"name": "lab"}`: 0,
		`{"name": `:       0,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := addPlugin(path, map[string]any{"type": "portmap"})
		if (err == nil) != (want > 0) {
			t.Errorf("%s: %v", text, err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want == 0 {
			if string(data) != text {
				t.Errorf("%s became %s", text, data)
			}
			continue
		}
		var got struct {
			Name    string
			Plugins []struct{ Type string }
		}
		if err := json.Unmarshal(data, &got); err != nil || got.Name != "lab" || len(got.Plugins) != want || got.Plugins[1].Type != "portmap" {
			t.Errorf("%s became %s: %v", text, data, err)
		}
	}
}
