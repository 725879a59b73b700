package arch

import (
	"cmp"
	"go/ast"
	"go/token"
	"slices"
)

// The sizes of product code, in lines. A file is read at one go, a function
// on one screen.
const (
	maxFile     = 350
	maxFunction = 60
	p99Function = 45
)

// function is one with its length.
type function struct {
	at    token.Position
	name  string
	lines int
}

// functions returns those that a file declares, signature and braces counted.
func functions(set *token.FileSet, file *ast.File) []function {
	var list []function
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			at := set.Position(f.Pos())
			list = append(list, function{at, f.Name.Name, set.Position(f.End()).Line - at.Line + 1})
		}
	}
	return list
}

// overP99 returns the length that 99 % of the functions do not exceed, and,
// where that is more than p99Function, those that have to shrink first.
func overP99(list []function) (p99 int, offenders []function) {
	if len(list) == 0 {
		return 0, nil
	}
	slices.SortFunc(list, func(a, b function) int { return cmp.Compare(b.lines, a.lines) })
	over := len(list) / 100 // that many may be longer
	p99 = list[over].lines
	if p99 <= p99Function {
		return p99, nil
	}
	end := slices.IndexFunc(list, func(f function) bool { return f.lines <= p99Function })
	if end < 0 {
		end = len(list)
	}
	return p99, list[:end]
}
