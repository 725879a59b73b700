package arch

import (
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	longOfMake = regexp.MustCompile(`(?m)^LONG := ((?:.*\\\n)*.*)`)
	longOfPage = regexp.MustCompile("(?m)^\\| (`Test.*?) \\| (.*) \\|$")
	testOfPage = regexp.MustCompile("`(Test\\w+)`")
	testOfCode = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// What make test leaves to make long is told on the page of tests, each with what make test has
// instead; and all of these are there. A name that nobody has would be left out for nothing, and
// a test that was renamed would be in both.
func TestWhatIsLeftToMakeLong(t *testing.T) {
	code := map[string]bool{}
	err := filepath.WalkDir("../../test", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			for _, m := range testOfCode.FindAllStringSubmatch(read(t, strings.TrimPrefix(path, "../../")), -1) {
				code[m[1]] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	long := map[string]bool{}
	for _, name := range strings.Fields(strings.ReplaceAll(longOfMake.FindStringSubmatch(read(t, "Makefile"))[1], "\\", "")) {
		long[name] = true
	}
	_, section, _ := strings.Cut(read(t, "docs/testing.md"), "\n## What make long runs\n")
	section, _, _ = strings.Cut(section, "\n## ")
	told := map[string]bool{}
	for _, row := range longOfPage.FindAllStringSubmatch(section, -1) {
		for _, m := range testOfPage.FindAllStringSubmatch(row[1], -1) {
			told[m[1]] = true
		}
		instead := testOfPage.FindAllStringSubmatch(row[2], -1)
		if len(instead) == 0 {
			t.Errorf("nothing is in make test instead of %s", row[1])
		}
		for _, m := range instead {
			if !code[m[1]] || long[m[1]] {
				t.Errorf("%s is not in make test", m[1])
			}
		}
	}
	if have, want := slices.Sorted(maps.Keys(told)), slices.Sorted(maps.Keys(long)); len(want) == 0 || !slices.Equal(have, want) {
		t.Errorf("docs/testing.md tells of\n%v\nthe Makefile leaves out\n%v", have, want)
	}
	for name := range long {
		if !code[name] {
			t.Errorf("LONG of the Makefile has %s, which is no test", name)
		}
	}
}
