package convert

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/api/names"
)

// elsewhere are a label of Leases and a key of taints: on a Service they do nothing.
var elsewhere = []string{names.UnitLease, names.UnseenTaint}

// Every annotation below names.Domain that api/names has is one of ours: who writes
// it on a Service without keys would else be told that nothing knows it.
func TestOursAreAllThereAre(t *testing.T) {
	paths, err := filepath.Glob("../api/names/*.go")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	files, set := []*ast.File{}, token.NewFileSet()
	for _, path := range paths {
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	pkg, err := new(types.Config).Check("names", set, files, nil)
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, name := range pkg.Scope().Names() {
		c, ok := pkg.Scope().Lookup(name).(*types.Const)
		if !ok || c.Val().Kind() != constant.String || !strings.HasPrefix(constant.StringVal(c.Val()), names.Domain+"/") {
			continue
		}
		declared = append(declared, constant.StringVal(c.Val()))
		if slices.Contains(ours, constant.StringVal(c.Val())) == slices.Contains(elsewhere, constant.StringVal(c.Val())) {
			t.Errorf("names.%s (%s) has to be in ours (convert/annotations.go) or elsewhere, and not in both: a Service with it gets the problem that gridmesh does not know it", name, c.Val())
		}
	}
	for _, name := range ours {
		if !slices.Contains(declared, name) {
			t.Errorf("%s is one of ours, and no constant in api/names", name)
		}
	}
	if len(declared) < 8 {
		t.Errorf("only %q were found", declared)
	}
}
