package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/node/report"
)

const served = `{apiVersion: v1, kind: Service, metadata: {name: web, namespace: default}, spec: {clusterIP: 10.96.0.9, ports: [{port: 80}]}}`

// A boot after which nothing says what is to be served leaves a node guarded and served by its
// last good state; once something does, the node follows it. A node that never served ends,
// and says what is wrong.
func TestABootWithoutASource(t *testing.T) {
	t.Parallel()
	half := `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, con`
	for name, tc := range map[string]struct {
		flag, text string // "-": no file
		say        string
		code       int // of a node that never served
	}{
		"kubeconfig missing":   {"--kubeconfig", "-", "no such file", 1},
		"kubeconfig empty":     {"--kubeconfig", "", "has none", 1},
		"kubeconfig half":      {"--kubeconfig", half, "yaml", 1},
		"kubeconfig of zeros":  {"--kubeconfig", strings.Repeat("\x00", 4096), "control characters", 1},
		"API server in ranges": {"--kubeconfig", kubeconfig("https://10.96.0.1:443"), "is in --service-cidr", 2},
		"manifests missing":    {"--manifests", "-", "no such file", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			file := filepath.Join(p.manifests(), "web.yaml")
			p.write(file, served)
			path := filepath.Join(p.dir, "source")
			if tc.text != "-" {
				p.write(path, tc.text)
			}
			if out := p.ends(p.agent("new", tc.flag, path), tc.code); !strings.Contains(out, tc.say) || len(p.left()) > 0 {
				t.Errorf("a node that never served says %s, and leaves %v", out, p.left())
			}
			p.serves("a", "--manifests", p.manifests())()
			if tc.code == 2 { // with rules of before in force, where a rollout is to stop
				p.ends(p.agent("a", tc.flag, path), 2)
			}
			p.boots()
			stop := p.servesFrom(report.LastGood, "a", tc.flag, path)
			defer stop()
			if guarded := strings.Join(p.left(), ", "); !strings.Contains(guarded, "table gridmesh,") {
				t.Errorf("no guard is in force: %s", guarded)
			}
			p.awaits("a", func(r *report.Report) bool { return told(r, tc.say) })
			if tc.flag == "--manifests" {
				if err := os.Rename(p.manifests(), path); err != nil {
					t.Fatal(err)
				}
				p.awaits("a", func(r *report.Report) bool { return r.Source == report.Live && r.Services == 1 })
				return
			}
			p.awaits("a", func(r *report.Report) bool {
				return r.APIServer != nil && strings.Contains(r.APIServer.Error, tc.say) && !strings.Contains(r.APIServer.Error, "Get ")
			})
			p.write(path, kubeconfig("https://127.0.0.1:1"))
			p.awaits("a", func(r *report.Report) bool {
				return strings.Contains(r.APIServer.Error, "127.0.0.1:1: connect: connection refused")
			})
		})
	}
}

// told reports whether a finding says why nobody can be asked.
func told(r *report.Report, why string) bool {
	return slices.ContainsFunc(r.Findings, func(f capture.Finding) bool { return f.Kind == "configuration" && strings.Contains(f.Text, why) })
}

// kubeconfig is one of an API server.
func kubeconfig(server string) string {
	return `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x}}], clusters: [{name: x, cluster: {server: "` + server + `"}}]}`
}

func (p place) write(path, text string) {
	p.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.Fatal(err)
	}
}

// boots removes what a boot does: rules and routes, and no file.
func (p place) boots() {
	p.Helper()
	dir := filepath.Join(p.dir, "a.state")
	kept, err := os.ReadFile(filepath.Join(dir, "state"))
	if err != nil {
		p.Fatal(err)
	}
	p.ends(p.agent("a", "cleanup"), 0)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		p.Fatal(err)
	}
	p.write(filepath.Join(dir, "state"), string(kept))
}

// awaits waits for a status.
func (p place) awaits(name string, is func(r *report.Report) bool) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
	defer cancel()
	begin := time.Now()
	for {
		r, err := report.Ask(ctx, filepath.Join(p.dir, name+".s"))
		if err != nil {
			p.Fatalf("never as awaited: %v", err)
		}
		if is(r) {
			p.Logf("so after %s", time.Since(begin).Round(time.Millisecond))
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
