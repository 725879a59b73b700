package v1

import (
	"embed"
	"fmt"
)

//go:embed crd/*.yaml
var crds embed.FS

// CRDs returns the CustomResourceDefinitions of the grids, as YAML.
func CRDs() ([][]byte, error) {
	entries, err := crds.ReadDir("crd")
	if err != nil {
		return nil, fmt.Errorf("read embedded CRDs: %w", err)
	}
	list := make([][]byte, 0, len(entries))
	for _, e := range entries {
		data, err := crds.ReadFile("crd/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("read embedded CRDs: %w", err)
		}
		list = append(list, data)
	}
	return list, nil
}
