package arch

import (
	"fmt"
	"go/ast"
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

// Every room that is there is in the page's table, and has a page of its own.
func TestRoomsAreOnThePage(t *testing.T) {
	page := read(t, "docs/ARCHITECTURE.md")
	for folder := range layers {
		if !exists(folder) {
			continue
		}
		if !strings.Contains(page, "| `"+folder) && !strings.Contains(page, ", `"+folder) {
			t.Errorf("docs/ARCHITECTURE.md has no line of the folder %s", folder)
		}
		if layers[folder] == layerRoom && !exists(folder+"/README.md") {
			t.Errorf("the room %s has no README.md", folder)
		}
	}
}

// firstWords is how many words of ours somebody may be asked to learn before all
// else.
const firstWords = 20

// The glossary has two tables, the words that one needs first and the others. Each
// is by the alphabet, and a word has one row.
func TestGlossaryIsSorted(t *testing.T) {
	var tables [][]string
	had := map[string]bool{}
	for line := range strings.Lines(read(t, "docs/glossary.md")) {
		cell, _, row := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		word := strings.ToLower(cell)
		switch n := len(tables); {
		case !row || !strings.HasPrefix(line, "| "):
		case word == "word":
			tables = append(tables, nil)
		case n == 0:
			t.Fatalf("docs/glossary.md has %q in no table", word)
		default:
			if before := tables[n-1]; len(before) > 0 && word <= before[len(before)-1] {
				t.Errorf("docs/glossary.md has %q behind %q", word, before[len(before)-1])
			}
			if had[word] {
				t.Errorf("docs/glossary.md has %q twice", word)
			}
			had[word] = true
			tables[n-1] = append(tables[n-1], word)
		}
	}
	if len(tables) != 2 || len(tables[0]) == 0 || len(tables[1]) == 0 {
		t.Fatalf("the glossary has the tables %q", tables)
	}
	if n := len(tables[0]); n > firstWords {
		t.Errorf("docs/glossary.md has %d words that one needs first, at most %d are learned: move those that are said in passing below", n, firstWords)
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

// checkDiff looks where each hunk of a diff applies: below its @@ line, once, or
// applied already.
func checkDiff(t *testing.T, page, diff string) {
	t.Helper()
	var h hunk
	check := func() {
		if fault := h.fault(func(path string) string { return read(t, path) }); fault != "" {
			t.Errorf("%s shows a diff of %s that fits nowhere: %s; mend the page (a hunk is one line of context and what comes below it):\n@@ %s\n%s",
				page, h.path, fault, h.at, h.before)
		}
		h = hunk{path: h.path}
	}
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "--- "):
			check()
		case strings.HasPrefix(line, "+++ b/"):
			h.path = strings.TrimSpace(line[len("+++ b/"):])
		case strings.HasPrefix(line, "@@ "):
			check()
			h.at = strings.TrimSpace(line[len("@@ "):])
		default:
			h.add(line)
		}
	}
	check()
}

// hunk is a change of one place of a file, below a line that stands there once.
type hunk struct {
	path, at      string
	before, after string
	context       int // lines that stay
	adds          bool
}

func (h *hunk) add(line string) {
	kind, text := line[0], line[1:]
	if kind == ' ' {
		h.context++
	}
	if kind != '+' {
		h.before += text
	}
	if kind != '-' {
		h.after += text
	}
	h.adds = h.adds || kind == '+'
}

// fault says why the hunk does not fit, "" where it does. A new file always fits.
func (h *hunk) fault(read func(path string) string) string {
	if h.at == "" {
		return ""
	}
	place, fault := below(squeezed(read(h.path)), squeezed(h.at))
	before, after := squeezed(h.before), squeezed(h.after)
	switch n := times(place, before); {
	case fault != "":
		return fault
	case h.context > 1:
		return "its context is more than one line, so that others break it"
	case before == "": // it goes right below
		return ""
	case h.adds && times(place, after) == 1: // it was applied
		return ""
	case n != 1:
		return fmt.Sprintf("its lines stand there %d times", n)
	}
	return ""
}

var blanks = regexp.MustCompile(`[ \t]+`)

// squeezed has each run of blanks as one: gofmt sets lines anew for a neighbour's
// longer name, which breaks nobody's diff.
func squeezed(text string) string { return blanks.ReplaceAllString(text, " ") }

// times is how often lines, whole ones, stand in a text.
func times(text, lines string) (n int) {
	for text = "\n" + text; ; n++ {
		_, after, found := strings.Cut(text, "\n"+lines)
		if !found {
			return n
		}
		text = text[len(text)-len(after)-len(lines):]
	}
}

// below is what stands below the one line that begins with at: in Go up to the
// end of the declaration.
func below(text, at string) (place, fault string) {
	found := 0
	for rest := text; rest != ""; {
		line, after, _ := strings.Cut(rest, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), at) {
			found++
			place = after
		}
		rest = after
	}
	if found != 1 {
		return "", fmt.Sprintf("the line after @@ stands there %d times", found)
	}
	for _, end := range []string{"\n}\n", "\n)\n"} {
		if inside, _, ends := strings.Cut(place, end); ends {
			place = inside + end
		}
	}
	return place, ""
}

// A hunk that fits says nothing, before and after it was applied, and with a line
// more beside it; one that does not says why.
func TestHunksFit(t *testing.T) {
	const list = "package a\n\nvar list = []int{\n\tone,\n\ttwo,\n}\n\nvar more = []int{\n\ttwo,\n}\n"
	const fields = "package a\n\ntype a struct {\n\tone   int\n\tthree int // more\n}\n"
	for _, c := range []struct{ text, at, lines, want string }{
		{list, "var list", " \ttwo,\n+\tthree,\n", ""},
		{strings.Replace(list, "two,\n", "two,\n\tmine,\n", 1), "var list", " \ttwo,\n+\tthree,\n", ""},
		{strings.Replace(list, "two,\n", "two,\n\tthree,\n", 1), "var list", " \ttwo,\n+\tthree,\n", ""},
		{list, "var list", "-\ttwo,\n+\tthree,\n", ""},
		{strings.Replace(list, "two", "three", 1), "var list", "-\ttwo,\n+\tthree,\n", ""},
		{list, "package a", " \ttwo,\n+\tthree,\n", ""}, // up to the first end
		{list, "var", " \ttwo,\n+\tthree,\n", "the line after @@ stands there 2 times"},
		{list, "var other", " \ttwo,\n+\tthree,\n", "the line after @@ stands there 0 times"},
		{list, "var more", " \tone,\n+\tthree,\n", "its lines stand there 0 times"},
		{fields, "type a", " \tone int\n+\ttwo int\n", ""}, // gofmt set them anew for a longer name
		{strings.Replace(fields, "one   int\n", "one   int\n\ttwo   int\n", 1), "type a", " \tone int\n+\ttwo int\n", ""},
		{fields, "three int", "+\ttwo int\n", ""},
		{fields, "type a", " \to ne int\n+\ttwo int\n", "its lines stand there 0 times"},
		{list + list, "var more = x", " \tone,\n+\tthree,\n", "the line after @@ stands there 0 times"},
		{strings.ReplaceAll(list, "one", "two"), "var list", " \ttwo,\n+\tthree,\n", "its lines stand there 2 times"},
		{list, "var list", " \tone,\n \ttwo,\n+\tthree,\n", "its context is more than one line, so that others break it"},
		{list, "var list", "+\tthree,\n", ""}, // right below
		{list, "var other", "+\tthree,\n", "the line after @@ stands there 0 times"},
		{list, "var list", " \tone,\n-\ttwo,\n", ""},
		{list, "var list", " \tone,\n-\tthree,\n", "its lines stand there 0 times"},
	} {
		h := hunk{path: "a.go", at: c.at}
		for line := range strings.Lines(c.lines) {
			h.add(line)
		}
		if got := h.fault(func(string) string { return c.text }); got != c.want {
			t.Errorf("below %q, %q: %q, want %q", c.at, c.lines, got, c.want)
		}
	}
}

// declared is what each Go file declares: "pkg.Name", and of a type's methods
// and fields "Type.Name" and "pkg.Type.Name".
func declared(t *testing.T) map[string]map[string]bool {
	t.Helper()
	files := map[string]map[string]bool{}
	for _, p := range packages(t) {
		names := slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles)
		for i, f := range parse(t, p, names) {
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

var (
	testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	testName = regexp.MustCompile("`(?:[\\w/]+\\.)?(Test[A-Z]\\w*)`")
)

// A page that says which test holds something names one that is there.
func TestPagesNameTests(t *testing.T) {
	there, named := map[string]bool{}, 0
	walk(t, "_test.go", func(path, text string) {
		for _, match := range testFunc.FindAllStringSubmatch(text, -1) {
			there[match[1]] = true
		}
	})
	walk(t, ".md", func(path, text string) {
		for _, match := range testName.FindAllStringSubmatch(text, -1) {
			if named++; !there[match[1]] {
				t.Errorf("%s names %s, which is no test", path, match[1])
			}
		}
	})
	if named < len(there)/10 {
		t.Errorf("the pages name %d of %d tests: are they read?", named, len(there))
	}
}

// walk reads the project's files whose names end so.
func walk(t *testing.T, ending string, take func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "bin" || d.Name() == ".git"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ending):
			return nil
		}
		text, err := os.ReadFile(path)
		take(path, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
