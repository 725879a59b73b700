package kube_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/internal/apitest"
)

// kubeconfigFor writes a kubeconfig of servers by context, the first of them
// current.
func kubeconfigFor(t *testing.T, servers ...string) string {
	t.Helper()
	var clusters, contexts []string
	for i, server := range servers {
		clusters = append(clusters, fmt.Sprintf("{name: c%d, cluster: {server: %q}}", i, server))
		contexts = append(contexts, fmt.Sprintf("{name: c%d, context: {cluster: c%d, user: u}}", i, i))
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c0, clusters: [%s], contexts: [%s], users: [{name: u, user: {}}]}",
		strings.Join(clusters, ", "), strings.Join(contexts, ", "))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Of a request that failed people read the address, the config, and what to
// check; the error stays what it was.
func TestBlame(t *testing.T) {
	other := httptest.NewUnstartedServer(http.NotFoundHandler())
	other.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	other.StartTLS()
	defer other.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // its kernel answers, and nobody else
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, c := range map[string]struct {
		server, want string
		patience     time.Duration
	}{
		"refused":  {"https://" + testkit.Nobody(t), "nothing listens there", time.Minute},
		"no name":  {"https://api.invalid:6443", "the name does not resolve here", time.Minute},
		"no TLS":   {"https://" + strings.TrimPrefix(plainServer(t), "http://"), "it speaks HTTP there", time.Minute},
		"no HTTPS": {strings.Replace(other.URL, "https://", "http://", 1), "it is asked by http://", time.Minute},
		"nor any":  {strings.TrimPrefix(other.URL, "https://"), "has no https:// before it", time.Minute},
		"no CA":    {other.URL, "its certificate is not trusted", time.Minute},
		"silent":   {"https://" + silent.Addr().String(), "nothing answers", time.Second},
		"slow":     {slowServer(t), "it is there; give it more time", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			path := kubeconfigFor(t, c.server)
			client, err := kube.Connect(path, "test", kube.NodeRate())
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), c.patience)
			defer cancel()
			err = client.Ask(ctx)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.server+", of kubeconfig "+path) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// Who is asked by http:// at port 80, as where a server has neither a scheme nor a port, is told of
// the https:// that lacks, by whichever program, whether somebody is there or nobody.
func TestBlameWithoutHTTPS(t *testing.T) {
	other := httptest.NewTLSServer(http.NotFoundHandler())
	other.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	defer other.Close()
	bare := strings.TrimPrefix(other.URL, "https://")
	for _, server := range []string{"127.213.5.7", "http://127.213.5.7", "127.213.5.7:80", "[::1]", bare} {
		path := kubeconfigFor(t, server)
		late, err := kube.Connect(path, "test", kube.NodeRate())
		person, err2 := kube.ConnectPerson(path, "", "test")
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		for _, client := range []*kube.Client{late, person} {
			err := client.Ask(t.Context())
			if err == nil || !strings.Contains(err.Error(), "is http://"+strings.TrimPrefix(server, "http://")+", of kubeconfig "+path) ||
				!strings.Contains(err.Error(), "write clusters[].cluster.server there as https://") {
				t.Errorf("%s: %v", server, err)
			}
		}
	}
	path := kubeconfigFor(t, "http://127.213.5.7")
	client, err := kube.Connect(path, "test", kube.NodeRate())
	if err != nil {
		t.Fatal(err)
	}
	for _, served := range []struct {
		err  error
		want string
	}{
		{apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n1", errors.New("newer")), "changed meanwhile"},
		{apierrors.NewGenericServerResponse(http.StatusNotFound, "GET", schema.GroupResource{}, "", "nginx", 0, true), "as https://"},
	} {
		if got := client.Blame(served.err).Error(); !strings.Contains(got, served.want) {
			t.Errorf("%s, want %q", got, served.want)
		}
	}
}

// expired is a deadline that has passed, on a machine that has not noticed yet.
type expired struct{ context.Context }

func (expired) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

// People whose time is up are told what the API server did, and not of a limiter
// of ours that saw no time for the request.
func TestTimeIsUp(t *testing.T) {
	path := kubeconfigFor(t, "https://"+testkit.Nobody(t))
	client, err := kube.ConnectPerson(path, "", "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Ask(expired{t.Context()}); err == nil || !strings.Contains(err.Error(), "nothing listens there") {
		t.Errorf("%v", err)
	}
}

// slowServer takes connections and requests, and answers nobody.
func slowServer(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(s.Close)
	return s.URL
}

func plainServer(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	return s.URL
}

// An API server that answers is asked no more than whether it is ready.
func TestAsk(t *testing.T) {
	s := apitest.New(t)
	c := s.Client(t)
	for code, want := range map[int]string{
		http.StatusOK: "", http.StatusForbidden: "",
		http.StatusUnauthorized: "does not know who asks", http.StatusInternalServerError: "cannot serve", http.StatusNotFound: "install what is missing", http.StatusConflict: "changed meanwhile", http.StatusTeapot: "refuses the request",
	} {
		s.Hook(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
			apitest.Fail(w, code, http.StatusText(code))
		})
		if code == http.StatusOK {
			s.Hook(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) { fmt.Fprint(w, "ok") })
		}
		err := c.Ask(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("it answers %d: %v, want %q", code, err, want)
		}
	}
	s.Hook(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		apitest.Fail(w, http.StatusForbidden, "Forbidden")
	})
	if _, _, err := c.NetworkPolicy(t.Context()); !strings.Contains(c.Blame(err).Error(), "give the user or ServiceAccount the rights") {
		t.Errorf("forbidden: %v", c.Blame(err))
	}
	if c.Blame(nil) != nil || !strings.Contains(c.Blame(errors.New("odd")).Error(), "check the address") {
		t.Error("what is unknown, or nothing")
	}
}

// The cluster is the one that kubectl would ask.
func TestConnectPerson(t *testing.T) {
	home, first, second := t.TempDir(), "https://192.0.2.1:6443", "https://192.0.2.2:6443"
	asked, other := kubeconfigFor(t, first, second), kubeconfigFor(t, second)
	t.Setenv("HOME", home)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", "")
	blamed := func(kubeconfig, context string) string {
		t.Helper()
		c, err := kube.ConnectPerson(kubeconfig, context, "test")
		if err != nil {
			return err.Error()
		}
		return c.Blame(errors.New("x")).Error()
	}
	want := func(got string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(got, part) {
				t.Errorf("%s, want %q in it", got, part)
			}
		}
	}
	if _, err := kube.ConnectPerson("", "", "test"); !errors.Is(err, kube.ErrNoConfig) {
		t.Errorf("without any: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(home, ".kube"), 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".kube", "config"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	want(blamed("", ""), second, "of ~/.kube/config")
	t.Setenv("KUBECONFIG", filepath.Join(home, "none")+":"+asked)
	want(blamed("", ""), first, "of $KUBECONFIG ")
	want(blamed("", "c1"), second, "context c1")
	want(blamed("", "nothing"), `context "nothing" does not exist`)
	want(blamed(other, ""), second, "of kubeconfig "+other)
	want(blamed("/does/not/exist", ""), "read kubeconfig /does/not/exist", "no such file")
	broken := filepath.Join(home, "broken")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(blamed(broken, ""), "read kubeconfig "+broken)
}
