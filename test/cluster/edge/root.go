package edge

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// module begins the go.mod of the checkout, and of no module inside it.
const module = "module github.com/gridmesh/gridmesh\n"

// Root is the top of the checkout. Tests run inside it; programs that people
// start anywhere ask FindRoot first.
func Root() string {
	dir, err := FindRoot()
	if err != nil {
		panic(err)
	}
	return dir
}

// FindRoot finds the top of the checkout: that of this program, or of the
// working directory, as for a test, whose program lies elsewhere.
func FindRoot() (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the checkout of gridmesh: %w", err)
	}
	from := []string{filepath.Dir(program)}
	if dir, err := os.Getwd(); err == nil { // it may have been removed
		from = append(from, dir)
	}
	return findRoot(from...)
}

func findRoot(from ...string) (string, error) {
	for _, start := range from {
		for dir := start; ; dir = filepath.Dir(dir) {
			if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && bytes.HasPrefix(text, []byte(module)) {
				return dir, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", fmt.Errorf("no checkout of gridmesh at or above %q: start the program from the bin/ where make build put it, or go into a checkout", from)
}

// Binary returns the path of a built program; programs of our own are those
// with the race detector where GRIDMESH_RACE is set.
func Binary(name string) string {
	bin := filepath.Join(Root(), "bin")
	if race := filepath.Join(bin, "race", name); os.Getenv("GRIDMESH_RACE") != "" {
		if _, err := os.Stat(race); err == nil {
			return race
		}
	}
	return filepath.Join(bin, name)
}
