package obs

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestLogIsStructured(t *testing.T) {
	for _, verbose := range []bool{false, true} {
		var out strings.Builder
		log := NewLog(&out, verbose)
		log.Debug("looked", KeyNode, "edge-7")
		log.Warn("could not look", KeyErr, errors.New("it is dark"))
		if !strings.Contains(out.String(), `level=WARN msg="could not look" err="it is dark"`) {
			t.Errorf("verbose %v:\n%s", verbose, &out)
		}
		if got := strings.Contains(out.String(), "msg=looked node=edge-7"); got != verbose {
			t.Errorf("verbose %v:\n%s", verbose, &out)
		}
	}
}

func TestVersion(t *testing.T) {
	defer func(was string) { version = was }(version)
	version = ""
	if got := readVersion(); !strings.HasPrefix(got, "devel") {
		t.Errorf("a version that nobody set is %q", got)
	}
	version = "v1.2.3"
	if got := readVersion(); !strings.HasPrefix(got, "v1.2.3") {
		t.Errorf("version %q", got)
	}
}

// One key a thing, one word a key, and a comment that says what is under it.
func TestKeys(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "keys.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		key, _ := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if name := spec.Names[0].Name; seen[key] || !regexp.MustCompile(`^[a-z_]+$`).MatchString(key) || !strings.EqualFold("Key"+strings.ReplaceAll(key, "_", ""), name) || spec.Comment.Text() == "" {
			t.Errorf("%s = %q", name, key)
		}
		seen[key] = true
		return false
	})
	if len(seen) < 20 {
		t.Errorf("only %d keys were found", len(seen))
	}
}
