package xds

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3" // named by the bootstrap
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3" // named by the bootstrap
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/fixed_heap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"
)

func bootstraps() map[string]Bootstrap {
	plain := Bootstrap{Node: "a-1", Socket: "/run/gridmesh/xds.sock", AdminSocket: "/run/gridmesh/envoy.sock", Mark: 2, HealthPort: 15009}
	limited := plain
	limited.HeapBytes = 512 << 20
	return map[string]Bootstrap{"plain": plain, "with a heap limit": limited}
}

// Unknown fields, wrong types and values out of range are errors here.
func TestBootstrapFitsEnvoysTypes(t *testing.T) {
	for what, b := range bootstraps() {
		var message bootstrap.Bootstrap
		if err := protojson.Unmarshal(asJSON(t, b), &message); err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if err := message.ValidateAll(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		ads := message.GetDynamicResources().GetAdsConfig().GetGrpcServices()[0].GetEnvoyGrpc()
		if got := ads.GetRetryPolicy().GetRetryBackOff().GetMaxInterval().AsDuration(); got > time.Second {
			t.Errorf("%s: a stream that was away comes back %s late", what, got)
		}
		if limit := message.GetOverloadManager() != nil; limit != (b.HeapBytes > 0) {
			t.Errorf("%s: heap limit: %v", what, limit)
		}
	}
}

// The real Envoy has the last word where there is one.
func TestBootstrapIsValidForEnvoy(t *testing.T) {
	envoy, given := os.LookupEnv("GRIDMESH_ENVOY")
	if !given {
		envoy = "../bin/envoy"
	}
	if _, err := os.Stat(envoy); err != nil && !given {
		t.Skipf("NO ENVOY WAS ASKED: %v: the bootstrap was only checked against go-control-plane's types; run make envoy, or set GRIDMESH_ENVOY", err)
	}
	for what, b := range bootstraps() {
		out, err := b.YAML()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "bootstrap.yaml")
		if err := os.WriteFile(file, out, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		text, err := exec.CommandContext(ctx, envoy, "--mode", "validate", "-c", file).CombinedOutput()
		cancel()
		if err != nil {
			t.Errorf("%s: %v\n%s", what, err, text)
		}
	}
}

func asJSON(t *testing.T, b Bootstrap) []byte {
	t.Helper()
	out, err := b.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if out, err = yaml.YAMLToJSON(out); err != nil {
		t.Fatal(err)
	}
	return out
}
