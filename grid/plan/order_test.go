package plan

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// empty stands for every package that is imported: what it has does not matter.
type empty struct{}

func (empty) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}

// The files build on each other in the order of doc.go: none refers to what a
// later one declares.
func TestFilesPointOneWay(t *testing.T) {
	order := filesInOrder(t)
	fset, files := token.NewFileSet(), []*ast.File{}
	for _, name := range order {
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	checker := types.Config{Importer: empty{}, Error: func(error) {}} // of what is imported, nothing is found
	pkg, _ := checker.Check("plan", fset, files, info)
	place := func(pos token.Pos) int { return slices.Index(order, fset.Position(pos).Filename) }
	back := map[string]bool{}
	for id, obj := range info.Uses {
		if obj.Pkg() == pkg && place(obj.Pos()) > place(id.Pos()) {
			back[order[place(id.Pos())]+" refers to "+obj.Name()+" of "+order[place(obj.Pos())]] = true
		}
	}
	if len(info.Uses) < 1000 {
		t.Errorf("only %d uses were found", len(info.Uses))
	}
	for _, text := range slices.Sorted(maps.Keys(back)) {
		t.Errorf("%s: move one of them", text)
	}
}

// filesInOrder are the files that doc.go lists; they must be all there are.
func filesInOrder(t *testing.T) []string {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, m := range regexp.MustCompile(`(?m)^//\t(\w+\.go) `).FindAllSubmatch(doc, -1) {
		order = append(order, string(m[1]))
	}
	all, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(name string) bool { return name == "doc.go" || strings.HasSuffix(name, "_test.go") })
	if listed := slices.Sorted(slices.Values(order)); !slices.Equal(listed, all) {
		t.Fatalf("doc.go lists %v, there are %v", listed, all)
	}
	return order
}
