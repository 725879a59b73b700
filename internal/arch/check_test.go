package arch

import (
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

// The laws find what they should: each line is an import and whether it
// breaks one.
func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		pkg, imports string
		broken       bool
	}{
		{"topology", "net/netip", false},
		{"topology", "net", true},
		{"topology", "k8s.io/api/core/v1", true},
		{"topology/topologytest", "k8s.io/api/core/v1", true},
		{"topology", Module + "/internal/table", false},
		{"topology", Module + "/kube", true},
		{"topology", Module + "/convert", true},
		{"convert", Module + "/topology", false},
		{"convert", "k8s.io/api/core/v1", false},
		{"source", Module + "/kube/feed", true},
		{"kube/feed", Module + "/source", true},
		{"kube/feed", Module + "/kube/objects", false},
		{"kube/feed", "k8s.io/client-go/tools/cache", false},
		{"source", Module + "/xds", true},
		{"xds", Module + "/capture", true},
		{"health", Module + "/tunnel/wire", true},
		{"xds", Module + "/xds/render", false},
		{"xds/render", Module + "/xds", true},
		{"xds/render", "log/slog", true},
		{"xds/render", "google.golang.org/grpc/codes", true},
		{"xds/render", "google.golang.org/protobuf/proto", false},
		{"xds/render", "math/rand/v2", true},
		{"xds", "google.golang.org/grpc", false},
		{"capture/plan", Module + "/source", true},
		{"capture/plan", "github.com/spf13/pflag", true},
		{"capture/plan", "net/url", false},
		{"grid", "k8s.io/client-go/util/workqueue", false},
		{"grid", "k8s.io/client-go/tools/cache", true},
		{"grid/plan", "k8s.io/client-go/util/workqueue", true},
		{"xds", "k8s.io/client-go/util/workqueue", true},
		{"node", Module + "/xds", false},
		{"node", Module + "/capture/plan", false},
		{"xds", Module + "/node", true},
		{"node", Module + "/cmd/gridmesh-agent", true},
		{"node", "k8s.io/client-go/kubernetes", true},
		{"cmd/gridmesh-agent", Module + "/node", false},
		{"cmd/gridmesh-agent", Module + "/xds", false},
		{"cmd/gridmesh-agent", "k8s.io/client-go/kubernetes", true},
		{"internal/run", Module + "/internal/obs", false},
		{"internal/run", Module + "/topology", true},
		{"internal/run", Module + "/api/names", true},
		{"test/lab", Module + "/cmd/gridmesh-agent", false},
		{"test/lab", "k8s.io/client-go/kubernetes", false},
		{"newroom", "fmt", true},
	} {
		if got := len(Check(Module+"/"+tc.pkg, []string{tc.imports})) > 0; got != tc.broken {
			t.Errorf("%s importing %s: broken = %v, want %v", tc.pkg, tc.imports, got, tc.broken)
		}
	}
}

// The same of what tests import.
func TestCheckTests(t *testing.T) {
	for _, tc := range []struct {
		pkg, imports string
		broken       bool
	}{
		{"xds", "xds/render", false},
		{"xds", "topology/topologytest", false},
		{"xds", "internal/testkit", false},
		{"xds", "capture", true},
		{"xds", "node", true},
		{"xds", "test/cluster", true},
		{"topology", "internal/testkit", false},
		{"topology", "source", true},
		{"convert", "topology/topologytest", false},
		{"convert", "source", false}, // known
		{"kube/feed", "source", true},
		{"node", "capture/plan", false},
		{"node", "cmd/gridmesh", true},
		{"cmd/gridmesh", "node/report", false},
		{"internal/run", "topology", true},
		{"test/soak", "test/cluster", false},
		{"test/soak", "source", false},
		{"test/soak", "kube/feed", false},
		{"test/soak", "node/report", false}, // known
		{"test/soak", "node/hold", true},
		{"test/cluster/edge", "xds", true},
		{"test/lab", "cmd/gridmesh", true},
	} {
		if got := len(CheckTests(Module+"/"+tc.pkg, []string{Module + "/" + tc.imports, "testing"})) > 0; got != tc.broken {
			t.Errorf("a test of %s importing %s: broken = %v, want %v", tc.pkg, tc.imports, got, tc.broken)
		}
	}
}

func TestClockUses(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
import clock "time"
var a, b = clock.Now, clock.Second
var time struct{ Now int }
var c = time.Now
func f() { clock.Sleep(1) }`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := clockUses(file); !slices.Equal(got, []string{"Now", "Sleep"}) {
		t.Errorf("found %v", got)
	}
}

func TestStartsGoroutines(t *testing.T) {
	for body, want := range map[string]bool{
		"go f()":                            true,
		"func() { go func() {}() }()":       true,
		"wg.Go(f)":                          true,
		"stop := context.AfterFunc(ctx, f)": true,
		"f()":                               false,
		"runtime.Gosched()":                 false,
		"Go()":                              false,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nimport _ \"go.uber.org/goleak\"\nfunc f() { "+body+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := startsGoroutines(file); got != want {
			t.Errorf("%s: starts goroutines = %v, want %v", body, got, want)
		}
		if !uses(file, leakDetector) || uses(file, "goleak") {
			t.Error("what a file imports is not seen")
		}
	}
}

func TestOverP99(t *testing.T) {
	lengths := func(long ...int) []function {
		list := make([]function, 200-len(long))
		for _, n := range long {
			list = append(list, function{lines: n})
		}
		return list
	}
	for _, tc := range []struct {
		list      []function
		p99, over int
	}{
		{nil, 0, 0},
		{lengths(60, 59), 0, 0},      // 1 % may
		{lengths(60, 59, 45), 45, 0}, // and 99 % do not
		{lengths(60, 59, 46, 45), 46, 3},
	} {
		if p99, over := overP99(tc.list); p99 != tc.p99 || len(over) != tc.over {
			t.Errorf("p99 %d with %d to shrink, want %d with %d", p99, len(over), tc.p99, tc.over)
		}
	}
}
