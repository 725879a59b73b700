package kube_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/kube"
)

// who answers /readyz below a path to those who show a token.
func who(t *testing.T, path, token string) (server string, asked *atomic.Int64) {
	asked = &atomic.Int64{}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path+"/readyz" || r.Header.Get("Authorization") != "Bearer "+token || r.UserAgent() != "test" {
			http.Error(w, r.URL.Path, http.StatusTeapot)
			return
		}
		asked.Add(1)
	}))
	t.Cleanup(s.Close)
	return s.URL + path, asked
}

// configOf is a kubeconfig; of a server without TLS no token would be shown.
func configOf(server, token string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x, user: x}}],
 clusters: [{name: x, cluster: {server: %q, insecure-skip-tls-verify: true}}], users: [{name: x, user: {token: %q}}]}`, server, token)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// soon waits for a request that succeeds, and returns the last error of those before.
func soon(t *testing.T, c *kube.Client) (before error) {
	t.Helper()
	begin := time.Now()
	for time.Since(begin) < 30*time.Second {
		err := c.Reachable(t.Context())
		if err == nil {
			t.Logf("reached after %s", time.Since(begin).Round(time.Millisecond))
			return before
		}
		before = err
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("not reached: %v", before)
	return nil
}

// A configuration that is not there, or broken, is used once it is there; until then its error is
// that of each request, and names the file and the cure.
func TestAConfigurationThatComesLate(t *testing.T) {
	server, asked := who(t, "/k8s/edge", "good")
	whole := configOf(server, "good")
	for name, first := range map[string]string{"missing": "-", "empty": "", "half": whole[:len(whole)/2], "a PEM": "{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x}}], clusters: [{name: x, cluster: {server: 'https://192.0.2.1', certificate-authority-data: YWJj}}]}"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kubeconfig")
			if first != "-" {
				write(t, path, first)
			}
			was := asked.Load()
			c, err := kube.Late(kube.Options{Kubeconfig: path, Agent: "test", Rate: kube.NodeRate()})
			if c == nil || err == nil || !strings.Contains(err.Error(), "kubeconfig "+path) {
				t.Fatalf("%v, %v", c, err)
			}
			if _, strict := kube.Connect(path, "test", kube.NodeRate()); strict == nil || strict.Error() != err.Error() {
				t.Errorf("who cannot go on without is told %v, and the other %v", strict, err)
			}
			if ever, fault := c.Usable(); ever || fault == nil || fault.Error() != err.Error() {
				t.Errorf("it could ever be used: %v; it says %v", ever, fault)
			}
			if asking := c.Reachable(t.Context()); asking == nil || !strings.Contains(asking.Error(), err.Error()) {
				t.Errorf("a request says %v, the start said %v", asking, err)
			}
			write(t, path, whole)
			soon(t, c)
			if ever, fault := c.Usable(); asked.Load() == was || !ever || fault != nil {
				t.Errorf("asked %d times; it could ever be used: %v; it says %v", asked.Load()-was, ever, fault)
			}
		})
	}
}

// Another token, and another address, are used without a new start; a file that is
// broken on the way there takes nothing away.
func TestAConfigurationThatChanges(t *testing.T) {
	one, atOne := who(t, "", "good")
	two, atTwo := who(t, "/k8s", "better")
	path := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, path, configOf(one, "expired"))
	c, err := kube.Connect(path, "test", kube.NodeRate())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Reachable(t.Context()); err == nil || atOne.Load() > 0 {
		t.Fatalf("let in: %v", err)
	}
	write(t, path, configOf(one, "good"))
	if before := soon(t, c); before == nil || atOne.Load() == 0 {
		t.Errorf("before: %v, asked %d times", before, atOne.Load())
	}
	write(t, path, "")
	for begin := time.Now(); time.Since(begin) < 5*time.Second; time.Sleep(100 * time.Millisecond) {
		if err := c.Reachable(t.Context()); err != nil {
			t.Fatalf("%s after the file was emptied: %v", time.Since(begin), err)
		}
	}
	if ever, fault := c.Usable(); !ever || fault == nil || !strings.Contains(fault.Error(), path) {
		t.Errorf("it could ever be used: %v; of the file that was emptied it says %v", ever, fault)
	}
	write(t, path, configOf(two, "better"))
	for begin := time.Now(); atTwo.Load() == 0; time.Sleep(20 * time.Millisecond) {
		if err := c.Reachable(t.Context()); err != nil {
			t.Fatal(err)
		}
		if time.Since(begin) > 30*time.Second {
			t.Fatal("the other address was never asked")
		}
	}
}
