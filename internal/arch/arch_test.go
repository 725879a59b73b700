package arch

import (
	"cmp"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

type listed struct {
	ImportPath, Dir                    string
	Imports, TestImports, XTestImports []string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

// folder is the package's path in the module.
func (p listed) folder() string { return strings.TrimPrefix(p.ImportPath, Module+"/") }

// product reports whether the package is more than a test's.
func (p listed) product() bool { return !under(p.folder(), "test") }

var list = sync.OnceValues(func() ([]listed, error) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,TestImports,XTestImports,GoFiles,TestGoFiles,XTestGoFiles", Module+"/...").Output()
	if err != nil {
		return nil, err
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
})

func packages(t *testing.T) []listed {
	t.Helper()
	all, err := list()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("only %d packages were found", len(all))
	}
	return all
}

// parsed are the files of the module that a law has looked at, by path, and set
// where in them everything is: each is parsed once.
var (
	parsed = map[string]*ast.File{}
	set    = token.NewFileSet()
)

// parse reads files of a package.
func parse(t *testing.T, p listed, names []string) []*ast.File {
	t.Helper()
	var files []*ast.File
	for _, name := range names {
		path := filepath.Join(p.Dir, name)
		if parsed[path] == nil {
			f, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed[path] = f
		}
		files = append(files, parsed[path])
	}
	return files
}

func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		for _, broken := range Check(p.ImportPath, p.Imports) {
			t.Error(broken)
		}
	}
}

func TestImportsOfTests(t *testing.T) {
	used := map[string]bool{}
	for _, p := range packages(t) {
		imports := slices.Concat(p.TestImports, p.XTestImports)
		if !p.product() {
			imports = append(imports, p.Imports...)
		}
		slices.Sort(imports)
		imports = slices.Compact(imports)
		for _, broken := range CheckTests(p.ImportPath, imports) {
			t.Error(broken)
		}
		for _, path := range imports {
			used[p.folder()+" "+strings.TrimPrefix(path, Module+"/")] = true
		}
	}
	for from, list := range knowing {
		for to := range list {
			if !used[from+" "+to] {
				t.Errorf("no test of %s imports %s: take it out of knowing", from, to)
			}
		}
	}
}

func TestPurePackagesDoNotAskTheClock(t *testing.T) {
	for _, p := range packages(t) {
		if !slices.Contains(pure, p.folder()) {
			continue
		}
		for i, f := range parse(t, p, p.GoFiles) {
			for _, name := range clockUses(f) {
				t.Errorf("%s/%s uses time.%s: a pure package gets the time as an argument, so that its tests own the clock", p.folder(), p.GoFiles[i], name)
			}
		}
	}
}

func TestPackagesHaveComments(t *testing.T) {
	for _, p := range packages(t) {
		names := p.GoFiles
		if len(names) == 0 {
			names = slices.Concat(p.TestGoFiles, p.XTestGoFiles)
		}
		documented := func(f *ast.File) bool { return strings.TrimSpace(f.Doc.Text()) != "" }
		if !slices.ContainsFunc(parse(t, p, names), documented) {
			t.Errorf("%s has no package comment: it is the manual that go doc and editors show", p.folder())
		}
	}
}

// In internal and kube, the README of the room may have a line for a folder.
func TestRoomsHaveREADMEs(t *testing.T) {
	for _, p := range packages(t) {
		folder := p.folder()
		room, layer, ok := find(folder)
		below := strings.TrimPrefix(strings.TrimPrefix(folder, room), "/")
		shared := room == "internal" || room == "kube"
		if !ok || layer == layerCmd || layer == layerTest || room == "api" || below != "" && !shared {
			continue
		}
		if _, err := os.Stat(filepath.Join(p.Dir, "README.md")); err == nil {
			continue
		}
		if below != "" {
			text, _ := os.ReadFile(filepath.Join(strings.TrimSuffix(p.Dir, below), "README.md"))
			if strings.Contains(string(text), "`"+below+"`") || strings.Contains(string(text), "`"+folder+"`") {
				continue
			}
		}
		t.Errorf("%s has no README.md: users meet flags, metrics and failure modes there (in internal and kube a line with its name in `backquotes` in the README of the room is enough)", folder)
	}
}

func TestGoroutinesAreSeenToEnd(t *testing.T) {
	starts, looks := []string{}, map[string]bool{}
	for _, p := range packages(t) {
		if p.product() && slices.ContainsFunc(parse(t, p, p.GoFiles), startsGoroutines) {
			starts = append(starts, p.folder())
		}
		tests := parse(t, p, slices.Concat(p.TestGoFiles, p.XTestGoFiles))
		looks[p.folder()] = slices.ContainsFunc(tests, func(f *ast.File) bool { return uses(f, leakDetector) })
	}
	for _, folder := range starts {
		if !looks[cmp.Or(twins[folder], folder)] {
			t.Errorf("%s starts goroutines, and none of its tests looks for those that are left: call goleak.VerifyTestMain in its TestMain", folder)
		}
	}
}

func TestSizes(t *testing.T) {
	var all []function
	for _, p := range packages(t) {
		if !p.product() {
			continue
		}
		for _, f := range parse(t, p, p.GoFiles) {
			if ast.IsGenerated(f) {
				continue
			}
			at := set.File(f.Pos())
			if n := at.LineCount(); n > maxFile {
				t.Errorf("%s has %d lines: at most %d are read at one go; split it by concept", at.Name(), n, maxFile)
			}
			all = append(all, functions(set, f)...)
		}
	}
	for _, f := range all {
		if f.lines > maxFunction {
			t.Errorf("%s: %s has %d lines: at most %d fit on a screen; name its parts", f.at, f.name, f.lines, maxFunction)
		}
	}
	p99, offenders := overP99(all)
	for _, f := range offenders {
		t.Errorf("%s: %s has %d lines, and the longest 1 %% of functions begin at %d: at most %d keeps the long ones rare", f.at, f.name, f.lines, p99, p99Function)
	}
	t.Logf("%d functions, p99 %d lines", len(all), p99)
}
