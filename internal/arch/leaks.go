package arch

import (
	"go/ast"
	"slices"
	"strconv"
)

// leakDetector is what the tests of a package that starts goroutines end with.
const leakDetector = "go.uber.org/goleak"

// twins are parts of tests that have none of their own, with whose tests look for
// what they leave.
var twins = map[string]string{"xds/xdstest": "xds", "grid/gridtest": "grid"}

// startsGoroutines reports whether a file does, by a go statement or by what
// stands for one: WaitGroup.Go, and AfterFunc of time and of context.
func startsGoroutines(file *ast.File) (starts bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			starts = true
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok {
				starts = starts || slices.Contains([]string{"Go", "AfterFunc"}, sel.Sel.Name)
			}
		}
		return !starts
	})
	return starts
}

// uses reports whether a file imports a package.
func uses(file *ast.File, path string) bool {
	return slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool {
		is, _ := strconv.Unquote(spec.Path.Value)
		return is == path
	})
}
