package kube_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/kube"
)

// Of a kubeconfig that cannot be used people read the field, what is wrong with it
// and the cure, whether they ask or a program does.
func TestMistakesInAKubeconfig(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	const whole = `{apiVersion: v1, kind: Config, current-context: c0, clusters: [{name: k0, cluster: {server: "https://192.0.2.1:6443"}}],
contexts: [{name: c0, context: {cluster: k0, user: u}}, {name: prod, context: {cluster: k0, user: u}}], users: [{name: u, user: {}}]}`
	path := filepath.Join(t.TempDir(), "kubeconfig")
	for name, test := range map[string]struct{ old, new, want string }{
		"no current context":    {"current-context: c0, ", "", "current-context: is empty, and does not say which cluster is meant; it may be c0, prod"},
		"another one":           {"current-context: c0", "current-context: gone", `current-context: names "gone", which does not exist; it may be c0, prod`},
		"no cluster of it":      {"cluster: k0", "cluster: k9", `contexts[c0].context.cluster: names "k9", which does not exist; it may be k0`},
		"no user of it":         {"user: u}", "user: nobody}", `contexts[c0].context.user: names "nobody", which does not exist, and so the API server would be asked as nobody; it may be u`},
		"no name":               {"current-context: c0", "current-context: y", "correct that field; what YAML takes for another type, as y, no or 123, is a name in quotes"},
		"no server":             {`server: "https://192.0.2.1:6443"`, "", "clusters[k0].cluster.server: is empty; write the API server's address, as https://192.0.2.1:6443"},
		"no URL":                {"https://192.0.2.1:6443", "htp://192.0.2.1:x", "write clusters[].cluster.server as https://"},
		"no contexts":           {"contexts: [", "others: [", "contexts: there is none"},
		"no certificate's file": {"server:", "certificate-authority: /no/ca.crt, server:", "unable to read certificate-authority /no/ca.crt for k0 due to open /no/ca.crt: no such file or directory; correct the path"},
		"no certificate":        {"server:", "certificate-authority-data: YWJj, server:", "correct certificate-authority, client-certificate and client-key, which are PEM"},
		"no base64":             {"server:", "certificate-authority-data: '!', server:", "correct certificate-authority-data"},
		"no kubeconfig":         {whole, "hello", "it is no kubeconfig; give the file that kubectl uses, of apiVersion v1 and kind Config"},
		"no YAML":               {whole, "{", "yaml: line 1: did not find expected node content; correct it"},
		"nothing":               {whole, "", "no cluster is given: kubeconfig " + path + " has none"},
	} {
		text := strings.Replace(whole, test.old, test.new, 1)
		if text == whole {
			t.Fatalf("%s: nothing is wrong", name)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, asked := kube.ConnectPerson(path, "", "test")
		_, program := kube.Connect(path, "test", kube.NodeRate())
		for who, err := range map[string]error{"people": asked, "a program": program} {
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Count(err.Error(), "use kubeconfig") > 1 || !strings.Contains(err.Error(), "kubeconfig "+path) || strings.Contains(err.Error(), "KUBERNETES_MASTER") {
				t.Errorf("%s, %s: %v, want %q", name, who, err, test.want)
			}
		}
	}
	if err := os.WriteFile(path, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.ConnectPerson(path, "nope", "test"); err == nil || !strings.Contains(err.Error(), `context "nope" does not exist; it may be c0, prod`) {
		t.Errorf("a context that is not there: %v", err)
	}
	if _, err := kube.ConnectPerson(filepath.Dir(path), "", "test"); err == nil || !strings.Contains(err.Error(), "is a directory; give the file that kubectl uses") {
		t.Errorf("a directory: %v", err)
	}
}

// A program for credentials that is not installed is said in a line.
func TestProgramForCredentials(t *testing.T) {
	path := kubeconfigFor(t, "https://192.0.2.1:6443")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	exec := strings.Replace(string(text), "user: {}", "user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: no-such-program, interactiveMode: Never}}", 1)
	if err := os.WriteFile(path, []byte(exec), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := kube.ConnectPerson(path, "", "test")
	if err != nil {
		t.Fatal(err)
	}
	if err = client.Ask(t.Context()); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "install it, or correct users[].user.exec.command there") {
		t.Errorf("%v", err)
	}
}

// An address that is most clusters' first ClusterIP is said to look like one where
// nobody answers, and no other; what an API server says is no matter of its address.
func TestAddressOfAService(t *testing.T) {
	for server, looks := range map[string]bool{
		"https://10.96.0.1": true, "https://10.96.0.1:443": true, "https://[fd00::1]": true,
		"https://10.96.0.1:6443": false, "https://10.96.1.1": false, "https://192.0.2.1": false, "https://192.168.0.1:8443": false, "https://api.example.com": false,
	} {
		client, err := kube.ConnectPerson(kubeconfigFor(t, server), "", "test")
		if err != nil {
			t.Fatal(err)
		}
		if text := client.Blame(errors.New("dial tcp: i/o timeout")).Error(); strings.Contains(text, "looks like the ClusterIP of the Service kubernetes") != looks {
			t.Errorf("%s: %s", server, text)
		}
	}
}
