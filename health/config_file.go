package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
)

// keptBook is a book on disk: with the key, so for root alone (mode 0600). A node that was
// restarted without an uplink could not vote without.
type keptBook struct {
	Version   int    `json:"version"`
	Namespace string `json:"namespace"`
	Maps      book   `json:"maps"`
}

const bookVersion = 1

// mostBook is of a file that somebody may have written. What ConfigMaps may say is less.
const mostBook = 1 << 20

// readBook reads what was kept of a namespace's ConfigMaps; nothing where there is no file.
func readBook(file, namespace string) (book, error) {
	if file == "" {
		return nil, nil
	}
	data, _, err := atomicfile.Read(file, mostBook)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read SuperEdge's ConfigMaps: %w", err)
	}
	b, err := decodeBook(data, namespace)
	if err != nil {
		return nil, fmt.Errorf("read SuperEdge's ConfigMaps: %s: %w", file, err)
	}
	return b, nil
}

// decodeBook reads a file's content, and believes of it no more than of ConfigMaps. What is
// missing is not known.
func decodeBook(data []byte, namespace string) (book, error) {
	var kept keptBook
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, err
	}
	switch {
	case kept.Version != bookVersion:
		return nil, fmt.Errorf("its version is %d, and %d is known", kept.Version, bookVersion)
	case kept.Namespace != namespace:
		return nil, fmt.Errorf("it is of the namespace %.80q, and not of %q", kept.Namespace, namespace)
	}
	for name, p := range kept.Maps {
		if fields[name] == nil || !p.Known {
			return nil, fmt.Errorf("%.80q is none of the ConfigMaps that are kept", name)
		}
		for key := range p.Data {
			if !slices.Contains(fields[name], key) {
				return nil, fmt.Errorf("ConfigMap %s: %.80q is none of the keys that are read", name, key)
			}
		}
		if err := p.check(name); err != nil {
			return nil, fmt.Errorf("ConfigMap %s: %w", name, err)
		}
	}
	return kept.Maps, nil
}

// writeBook keeps what is in force, once it is anything; what would not be read again it refuses.
func writeBook(file, namespace string, b book) error {
	if file == "" {
		return nil
	}
	data, err := json.Marshal(keptBook{bookVersion, namespace, b})
	if err == nil && len(data) > mostBook {
		err = fmt.Errorf("they have %d bytes, and %d are the most that is read: what was kept before stays", len(data), mostBook)
	}
	if err == nil {
		err = atomicfile.Write(file, data)
	}
	if err != nil {
		return fmt.Errorf("keep SuperEdge's ConfigMaps: %w", err)
	}
	return nil
}
