package arch

import (
	"go/ast"
	"slices"
	"strconv"
)

// pure packages decide and do nothing: the same arguments give the same
// result, on every machine. Some are planned (planned_test.go).
var pure = []string{
	"topology", "topology/refusal", "convert", "xds/render", "capture/plan", "capture/rules", "grid/plan", "dnsplugin/answer",
	"node/hold", "node/outage", "health/vote", "health/evidence", "health/shield", "health/report", "health/told", "admission/mutate", "tunnel/session", "autonomy/policy",
}

// pureInternal are the folders of internal that do no I/O.
var pureInternal = []string{"internal/table", "internal/ports", "internal/near", "internal/jsontype"}

// impure packages are out of bounds for a pure one, by path. net/netip and
// net/url are types.
func impure(path string) bool {
	return slices.Contains([]string{"net", "os", "context", "syscall", "log", "math/rand", "math/rand/v2", "crypto/rand"}, path) ||
		slices.ContainsFunc([]string{
			"net/http", "net/rpc", "net/smtp", "os/exec", "os/signal", "os/user", "log/slog", "log/syslog", "golang.org/x/sys",
			"github.com/spf13/pflag", "github.com/spf13/cobra", "google.golang.org/grpc", "k8s.io/client-go", "sigs.k8s.io/controller-runtime",
		}, func(folder string) bool { return under(path, folder) })
}

// clock are the functions of time that ask for it or wait for it.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}

// clockUses returns the functions of clock that a file mentions.
func clockUses(file *ast.File) []string {
	name := ""
	for _, spec := range file.Imports {
		if path, _ := strconv.Unquote(spec.Path.Value); path == "time" {
			name = "time"
			if spec.Name != nil {
				name = spec.Name.Name
			}
		}
	}
	var used []string
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && name != "" && x.Name == name && slices.Contains(clock, sel.Sel.Name) {
				used = append(used, sel.Sel.Name)
			}
		}
		return true
	})
	return used
}
