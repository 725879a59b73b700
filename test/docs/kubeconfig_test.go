package docs

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// asked is kubectl where there is no cluster: "get KIND NAME" is of a file here.
const asked = `#!/bin/sh
set -e
[ "$1 $2 $3" = "-n gridmesh get" ]
exec "$KUBE" kubectl patch --local --type merge -p '{}' -f "$4.$5.yaml" "$6" "$7"
`

// The page's lines make a kubeconfig of the Secret that deploy/systemd brings, for
// the API server that the agents are told, which nobody else may read.
func TestKubeconfigOfUnits(t *testing.T) {
	objects := overlay(t, kustomization+"components: [../deploy/systemd]\n")
	account := find(t, objects, "Secret", "gridmesh-agent-units").Annotations["kubernetes.io/service-account.name"]
	if find(t, objects, "ServiceAccount", account); account != "gridmesh-agent" {
		t.Errorf("the token is of %q", account)
	}
	var script string
	for _, block := range fence.FindAllStringSubmatch(section(t, "docs/agent.md", "Without a kubelet"), -1) {
		if strings.Contains(block[2], "cat >kubeconfig") {
			script = block[2]
		}
	}
	if script == "" {
		t.Fatal("docs/agent.md has no lines that make a kubeconfig")
	}
	dir, base64of := t.TempDir(), base64.StdEncoding.EncodeToString
	config := find(t, objects, "ConfigMap", "gridmesh-apiserver").Data
	for name, text := range map[string]string{
		"kubectl":                           asked,
		"configmap.gridmesh-apiserver.yaml": fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {host: %q, port: %q}}", config["host"], config["port"]),
		"secret.gridmesh-agent-units.yaml":  fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {ca.crt: %s, token: %s}}", base64of([]byte("a certificate")), base64of([]byte("a.token_of-it"))),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write := func() ([]byte, error) {
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "KUBE="+filepath.Join(edge.Root(), "bin", "kube"))
		return cmd.CombinedOutput()
	}
	if out, err := write(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file := filepath.Join(dir, "kubeconfig")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig is %v, %v", info, err)
	}
	got := kubectl(t, "config", "view", "--kubeconfig", file, "--raw", "--minify", "-o", "jsonpath={.clusters[0].cluster} {.users[0].user}")
	for _, want := range []string{`"server":"https://` + config["host"] + ":" + config["port"] + `"`, `"certificate-authority-data":"` + base64of([]byte("a certificate")) + `"`, `"token":"a.token_of-it"`} {
		if !strings.Contains(got, want) {
			t.Errorf("the kubeconfig has %s, not %s", got, want)
		}
	}
	// Of IPv6 it has to be in brackets there, and in none in the ConfigMap.
	ipv6 := fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {host: 'fd00::5', port: %q}}", config["port"])
	if err := os.WriteFile(filepath.Join(dir, "configmap.gridmesh-apiserver.yaml"), []byte(ipv6), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := write(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := kubectl(t, "config", "view", "--kubeconfig", file, "-o", "jsonpath={.clusters[0].cluster.server}"); got != "https://[fd00::5]:"+config["port"] {
		t.Errorf("an API server of IPv6 is %s", got)
	}
	// The Secret that was applied just now has no token yet.
	secret := []byte("{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {ca.crt: YQ==}}")
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "secret.gridmesh-agent-units.yaml"), secret, 0o600), os.Remove(file)); err != nil {
		t.Fatal(err)
	}
	if out, err := write(); err == nil || !strings.Contains(string(out), "run this again") {
		t.Errorf("without a token: %v, %s", err, out)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a kubeconfig without a token is made")
	}
}
