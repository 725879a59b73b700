// Command chart writes the templates of the Helm chart from the manifests of
// deploy/: the same text, with a value where an operator changes one. What it
// looks for and does not find is an error, so that no value is lost by an edit.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := run("deploy", "deploy/helm/gridmesh/templates"); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	made, err := templates(from)
	if err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(to, "*.yaml"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for name, text := range made {
		if err := os.WriteFile(filepath.Join(to, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// templates are the files of the chart, by name.
func templates(from string) (map[string]string, error) {
	made := map[string]string{}
	for name, values := range places {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return nil, err
		}
		text := string(data)
		if strings.Contains(text, "{{") {
			return nil, fmt.Errorf("%s: {{ would be Helm's", name)
		}
		for _, p := range values {
			if n := strings.Count(text, p.manifest); n != 1 {
				return nil, fmt.Errorf("%s has %d times, not once:\n%s", name, n, p.manifest)
			}
			text = strings.Replace(text, p.manifest, p.template, 1)
		}
		made[filepath.Base(name)] = "# Made of deploy/" + name + " by \"make generate\": change that one.\n" + text
	}
	return made, nil
}
