package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each row of a table has as many cells as its head: what is more is not shown.
func TestTablesAreWhole(t *testing.T) {
	tables := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "bin" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		cells, before := 0, ""
		for i, line := range strings.Split(string(text), "\n") {
			switch {
			case !strings.HasPrefix(line, "|"):
				cells = 0
			case strings.HasPrefix(line, "|---"):
				cells, tables = cellsOf(line), tables+1
				if n := cellsOf(before); n != cells {
					t.Errorf("%s:%d: a head of %d cells over %d columns", path, i, n, cells)
				}
			case cells > 0 && cellsOf(line) != cells:
				t.Errorf("%s:%d: a row of %d cells in a table of %d", path, i+1, cellsOf(line), cells)
			}
			before = line
		}
		return nil
	})
	if err != nil || tables < 20 {
		t.Errorf("%d tables, %v", tables, err)
	}
}

func cellsOf(row string) int {
	return strings.Count(strings.TrimSpace(strings.ReplaceAll(row, `\|`, "")), "|") - 1
}
