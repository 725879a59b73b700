package arch

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	fenced     = regexp.MustCompile("(?s)```(\\w*)\n(.*?)```")
	quoted     = regexp.MustCompile("`([^`\n]+)`")
	identifier = regexp.MustCompile(`^[A-Za-z]\w*(\.[A-Za-z]\w*)+$`)
)

// What the pages say of the code is there: every path; every `pkg.Name`,
// `Type.Name` and `pkg.Type.Name`, in a file of the same line where there is
// one; and what their diffs do not add.
func TestPagesNameWhatExists(t *testing.T) {
	files := declared(t)
	for _, page := range []string{"docs/ARCHITECTURE.md", "CONTRIBUTING.md"} {
		text := read(t, page)
		for _, block := range fenced.FindAllStringSubmatch(text, -1) {
			if block[1] == "diff" {
				checkDiff(t, page, block[2])
			}
		}
		n := 0
		for line := range strings.Lines(fenced.ReplaceAllString(text, "")) {
			n += checkLine(t, page, line, files)
		}
		if n < 20 {
			t.Errorf("%s names only %d things", page, n)
		}
	}
}

// checkLine checks a line outside of fences, and returns what it names.
func checkLine(t *testing.T, page, line string, files map[string]map[string]bool) (n int) {
	t.Helper()
	in := map[string]map[string]bool{} // the files where identifiers are looked for
	var names []string
	for _, match := range quoted.FindAllStringSubmatch(line, -1) {
		switch word := match[1]; {
		case files[word] != nil:
			in[word] = files[word]
			n++
		case strings.HasSuffix(word, ".go"), strings.Contains(word, "/") && exists(strings.Split(word, "/")[0]):
			if !strings.Contains(word, "*") && !exists(word) && !strings.HasPrefix(word, "bin/") {
				t.Errorf("%s names %s, which does not exist", page, word)
			}
			n++
		case identifier.MatchString(word) && !exists(word):
			names = append(names, word)
		}
	}
	if len(in) == 0 {
		in = files
	}
	for _, name := range names {
		found := false
		for _, have := range in {
			found = found || have[name]
		}
		if !found {
			t.Errorf("%s names %s, which is not declared there: %s", page, name, strings.TrimSpace(line))
		}
	}
	return n + len(names)
}

// checkDiff looks for the lines that a diff does not add, hunk by hunk.
func checkDiff(t *testing.T, page, diff string) {
	t.Helper()
	var path, hunk string
	check := func() {
		if hunk != "" && !strings.Contains(read(t, path), hunk) {
			t.Errorf("%s shows a diff of %s, which has no such lines:\n%s", page, path, hunk)
		}
		hunk = ""
	}
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "@@"):
			check()
		case strings.HasPrefix(line, "+++ b/"):
			path = strings.TrimSpace(line[len("+++ b/"):])
		case line[0] == '-', line[0] == ' ':
			hunk += line[1:]
		}
	}
	check()
}

// declared is what each Go file declares: "pkg.Name", and of a type's methods
// and fields "Type.Name" and "pkg.Type.Name".
func declared(t *testing.T) map[string]map[string]bool {
	t.Helper()
	files := map[string]map[string]bool{}
	for _, p := range packages(t) {
		names := slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles)
		for i, f := range parse(t, token.NewFileSet(), p, names) {
			have := map[string]bool{}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					have[receiver(n)+n.Name.Name] = true
				case *ast.ValueSpec:
					for _, name := range n.Names {
						have[name.Name] = true
					}
				case *ast.TypeSpec:
					have[n.Name.Name] = true
					for _, member := range members(n.Type) {
						have[n.Name.Name+"."+member] = true
					}
				}
				return true
			})
			files[p.folder()+"/"+names[i]] = map[string]bool{}
			for name := range have {
				files[p.folder()+"/"+names[i]][name] = true
				files[p.folder()+"/"+names[i]][f.Name.Name+"."+name] = true
			}
		}
	}
	return files
}

// receiver is the type of a method with a dot, "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	name := ""
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name + "."
		}
		return name == ""
	})
	return name
}

// members are the fields of a struct, and the methods of an interface.
func members(of ast.Expr) (list []string) {
	var fields *ast.FieldList
	switch of := of.(type) {
	case *ast.StructType:
		fields = of.Fields
	case *ast.InterfaceType:
		fields = of.Methods
	default:
		return nil
	}
	for _, f := range fields.List {
		for _, name := range f.Names {
			list = append(list, name.Name)
		}
	}
	return list
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func exists(path string) bool {
	_, err := os.Stat(filepath.Join("..", "..", path))
	return err == nil
}
