package topology

import (
	"errors"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gridmesh/gridmesh/api/names"
)

// A label of nodes that a rule names is among its nodeLabels, or a change of it
// would change nothing: only keys in use, which no rule can name, are followed without.
func TestRulesSayWhichLabelsTheyRead(t *testing.T) {
	paths, err := filepath.Glob("rule_*.go")
	if err != nil || len(paths) < 5 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, label := range unsaid(t, path, string(text)) {
			t.Errorf("%s asks nodes for the label %s; write it in the rule's nodeLabels, or a change of it is not followed (topology/rules.go)", path, label)
		}
	}
}

func TestUnsaidLabelsAreFound(t *testing.T) {
	const begin = `package topology
import "github.com/gridmesh/gridmesh/api/names"
const spare = "example.com/spare"
`
	for text, want := range map[string][]string{
		`var r = &rule{nodeLabels: []string{"example.com/quiet"}}; func f(q *question, c candidate) { q.label(c.Node, "example.com/quiet") }`: nil,
		`var r = &rule{}; func f(q *question, c candidate) { q.label(c.Node, "example.com/quiet") }`:                                          {"example.com/quiet"},
		`var r = &rule{nodeLabels: []string{"example.com/quiet"}}; func f(q *question, c candidate) { q.unit(c.Node, spare) }`:                {"example.com/spare"},
		`var r = &rule{nodeLabels: []string{spare}}; func f(q *question, c candidate) { q.unit(c.Node, "example.com/" + "spare") }`:           nil,
		`func f(q *question, c candidate) bool { return q.shares(names.Zone, c.Node) }`:                                                       {names.Zone},
		`func f(n *Node) string { return n.Labels[names.Zone] }`:                                                                              {names.Zone},
		`func f(n *Node) string { label := spare; return n.Labels[label] }`:                                                                   {"example.com/spare"},
		`func f(q *question, n *Node) string { key := q.keys.List[0]; return n.Labels[key] }`:                                                 nil,
	} {
		if got := unsaid(t, "rule.go", begin+text); !slices.Equal(got, want) {
			t.Errorf("%s: asks for %q unsaid, want %q", text, got, want)
		}
	}
}

// onlyNames imports api/names, which is where labels are; what is made with other
// packages is no constant.
type onlyNames struct{}

func (onlyNames) Import(path string) (*types.Package, error) {
	if path != "github.com/gridmesh/gridmesh/api/names" {
		return nil, errors.New("is not looked at")
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "../api/names/names.go", nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return new(types.Config).Check(path, set, []*ast.File{f}, nil)
}

// unsaid are the labels that a file with a rule asks nodes for, as constants, and
// that none of its nodeLabels has.
func unsaid(t *testing.T, path, code string) (list []string) {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, code, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	loose := types.Config{Importer: onlyNames{}, Error: func(error) {}} // the rest of the package is not there
	_, _ = loose.Check("topology", set, []*ast.File{f}, info)
	held := map[string]string{} // by variables
	text := func(e ast.Expr) (string, bool) {
		if v := info.Types[e].Value; v != nil && v.Kind() == constant.String {
			return constant.StringVal(v), true
		}
		id, _ := e.(*ast.Ident)
		if id == nil {
			return "", false
		}
		label, ok := held[id.Name]
		return label, ok
	}
	said, asked := map[string]bool{}, []string{}
	ask := func(keys ...ast.Expr) {
		for _, e := range keys {
			if label, ok := text(e); ok {
				asked = append(asked, label)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if id, ok := n.Key.(*ast.Ident); ok && id.Name == "nodeLabels" {
				for _, e := range elements(n.Value) {
					label, _ := text(e)
					said[label] = true
				}
			}
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if id, ok := to.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) {
					if label, ok := text(n.Rhs[i]); ok {
						held[id.Name] = label
					}
				}
			}
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"label", "unit", "shares"}, sel.Sel.Name) {
				ask(n.Args...)
			}
		case *ast.IndexExpr:
			if sel, ok := n.X.(*ast.SelectorExpr); ok && sel.Sel.Name == "Labels" {
				ask(n.Index)
			}
		}
		return true
	})
	for _, label := range asked {
		if !said[label] {
			list = append(list, label)
		}
	}
	return list
}

// elements are those of a list as it is written.
func elements(list ast.Expr) []ast.Expr {
	if c, ok := list.(*ast.CompositeLit); ok {
		return c.Elts
	}
	return nil
}
