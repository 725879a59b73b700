package arch

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

type listed struct {
	ImportPath, Dir string
	Imports         []string
	GoFiles         []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles", Module+"/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var list []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

func TestLaws(t *testing.T) {
	list := packages(t)
	if len(list) < 10 {
		t.Fatalf("only %d packages were found", len(list))
	}
	for _, p := range list {
		for _, broken := range Check(p.ImportPath, p.Imports) {
			t.Error(broken)
		}
	}
}

// A pure package gets the time as an argument.
func TestPurePackagesDoNotAskTheClock(t *testing.T) {
	for _, p := range packages(t) {
		if !slices.Contains(pure, strings.TrimPrefix(p.ImportPath, Module+"/")) {
			continue
		}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				x, ok := sel.X.(*ast.Ident)
				if ok && x.Name == "time" && slices.Contains([]string{"Now", "After", "Sleep", "Since", "NewTimer", "NewTicker"}, sel.Sel.Name) {
					t.Errorf("%s/%s calls time.%s", p.ImportPath, name, sel.Sel.Name)
				}
				return true
			})
		}
	}
}

func TestCheckFindsWhatItShould(t *testing.T) {
	for _, tc := range []struct {
		pkg, imports string
		broken       bool
	}{
		{"topology", "net/netip", false},
		{"topology", "net", true},
		{"topology", "k8s.io/api/core/v1", true},
		{"topology", Module + "/kube", true},
		{"xds", Module + "/capture", true},
		{"xds", Module + "/xds/render", false},
		{"xds/render", "log/slog", true},
		{"capture/plan", Module + "/source", true},
		{"cmd/gridmesh-agent", Module + "/xds", false},
		{"cmd/gridmesh-agent", "k8s.io/client-go/kubernetes", true},
		{"grid", "k8s.io/client-go/util/workqueue", false},
		{"grid", "k8s.io/client-go/dynamic", true},
		{"newroom", "fmt", true},
	} {
		if got := len(Check(Module+"/"+tc.pkg, []string{tc.imports})) > 0; got != tc.broken {
			t.Errorf("%s importing %s: broken = %v, want %v", tc.pkg, tc.imports, got, tc.broken)
		}
	}
}
