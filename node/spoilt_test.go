package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

const (
	writtenNodes = "{apiVersion: v1, kind: Node, metadata: {name: a-1, labels: {unit: a}}}\n---\n{apiVersion: v1, kind: Node, metadata: {name: a-2, labels: {unit: a}}}\n"
	writtenPlain = `---
{apiVersion: v1, kind: Service, metadata: {name: %[1]s}, spec: {clusterIP: %[2]s, ports: [{port: 80}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: %[1]s, labels: {kubernetes.io/service-name: %[1]s}}, addressType: IPv4, ports: [{port: 8080}], endpoints: [{addresses: [10.244.2.5], nodeName: a-2}]}
`
)

// written are manifests of a Service that is closed to its unit.
func written(name, ip string) string {
	return strings.Replace(fmt.Sprintf(writtenPlain, name, ip), "{name: "+name+"}, spec", "{name: "+name+", annotations: {topologyKeys: '[\"unit\"]'}}, spec", 1)
}

// What is wrong with manifests as an agent starts takes nothing away that a run before served, beside its
// rules and after a boot; what is right beside it is followed, and all is when it is corrected. Without a run
// before what is right is served.
func TestManifestsThatAreWrongAtTheStart(t *testing.T) {
	for name, spoil := range map[string]func(path, text string) error{
		"half a file": func(path, text string) error { return os.WriteFile(path, []byte(text[:len(text)/3]), 0o600) },
		"not a byte":  func(path, _ string) error { return os.WriteFile(path, nil, 0o600) },
		"unreadable": func(path, _ string) error {
			return errors.Join(os.Remove(path), os.Mkdir(path+".d", 0o700), os.Symlink(path, path))
		},
		"a port that is none": func(path, text string) error {
			return os.WriteFile(path, []byte(strings.Replace(text, "port: 80}", "port: 99999}", 1)), 0o600)
		},
		"a name that is none": func(path, text string) error {
			return os.WriteFile(path, []byte(strings.Replace(text, "name: web,", "", 1)), 0o600)
		},
		"a slice without label": func(path, text string) error {
			return os.WriteFile(path, []byte(strings.Replace(text, "kubernetes.io/service-name", "service", 1)), 0o600)
		},
	} {
		for _, boot := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, boot %v", name, boot), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r, dir := newRig(t), t.TempDir()
					web := filepath.Join(dir, "web.yaml")
					write := func(path, text string) { must(t, os.WriteFile(path, []byte(text), 0o600)) }
					write(filepath.Join(dir, "nodes.yaml"), writtenNodes)
					write(web, written("web", "10.96.0.10"))
					r.dir = source.NewDir(dir)
					r.mustStart(t)
					after(time.Minute)
					r.wantServed(t, "before", webFrontend)
					r.stop()
					must(t, spoil(web, written("web", "10.96.0.10")))
					write(filepath.Join(dir, "other.yaml"), written("other", "10.96.0.11"))
					if r.again(); boot {
						r.kernel.Flush()
					}
					r.dir = source.NewDir(dir)
					r.mustStart(t)
					after(time.Minute)
					r.wantServed(t, "wrong at the start", webFrontend, otherFrontend)
					if !slices.ContainsFunc(r.agent.status().Problems, func(p topology.Problem) bool { return strings.Contains(p.String(), "web.yaml") }) {
						t.Errorf("its problems are %v", r.agent.status().Problems)
					}
					must(t, os.Remove(web))
					write(web, written("web", "10.96.0.12"))
					after(time.Minute)
					r.wantServed(t, "corrected", otherFrontend, "10.96.0.12:80/tcp")
					r.stop()
					must(t, os.Remove(web))
					r.again()
					r.dir = source.NewDir(dir)
					r.mustStart(t)
					after(time.Minute)
					r.wantServed(t, "removed meanwhile", otherFrontend)
				})
			})
		}
	}
}
