package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	docFile = regexp.MustCompile(`(?:^|[^\w/*.])([a-z0-9_]+\.go)\b`)
	docList = regexp.MustCompile(`(?m)^\t((?:[a-z0-9_]+\.go(?:, )?)+)`)
)

// docFaults compares the files that a package comment names with those there are. One
// that lists files lists all of them.
func docFaults(doc string, files []string, exists func(name string) bool) (faults []string) {
	for _, m := range docFile.FindAllStringSubmatch(doc, -1) {
		if !exists(m[1]) {
			faults = append(faults, m[1]+" is not there")
		}
	}
	lists := docList.FindAllStringSubmatch(doc, -1)
	if len(lists) == 0 {
		return faults
	}
	var listed []string
	for _, m := range lists {
		listed = append(listed, strings.Split(strings.TrimSuffix(m[1], ", "), ", ")...)
	}
	for _, name := range files {
		if name != "doc.go" && !slices.Contains(listed, name) {
			faults = append(faults, name+" is not listed")
		}
	}
	return faults
}

// A package comment names files of its package as they are.
func TestPackageCommentsNameTheirFiles(t *testing.T) {
	for _, p := range packages(t) {
		for _, f := range parse(t, p, p.GoFiles) {
			for _, fault := range docFaults(f.Doc.Text(), p.GoFiles, func(name string) bool {
				_, err := os.Stat(filepath.Join(p.Dir, name))
				return err == nil
			}) {
				t.Errorf("the package comment of %s: %s", p.folder(), fault)
			}
		}
	}
}

func TestDocFaults(t *testing.T) {
	files := []string{"doc.go", "a.go", "b.go"}
	for doc, want := range map[string][]string{
		"names no file":                       nil,
		"one (a.go), and other/c.go":          nil,
		"one that is gone (c.go)":             {"c.go is not there"},
		"all:\n\n\ta.go  is one\n\tb.go  too": nil,
		"in one line:\n\n\ta.go, b.go  both":  nil,
		"not all:\n\n\ta.go  is one":          {"b.go is not listed"},
		"\tc.go  is gone":                     {"c.go is not there", "a.go is not listed", "b.go is not listed"},
	} {
		if got := docFaults(doc, files, func(name string) bool { return slices.Contains(files, name) }); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", doc, got, want)
		}
	}
}
