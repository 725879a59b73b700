package kube_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/internal/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConnectSaysWhatIsMissing(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"": "no --kubeconfig is given", "/does/not/exist": "/does/not/exist", broken: "read kubeconfig " + broken,
	} {
		if _, err := kube.Connect(path, "test", kube.NodeRate()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Connect(%q): %v, want %q", path, err, want)
		}
	}
}

// Who gives an address that may not be is told so; a name is no address.
func TestWhoseAddressIsChecked(t *testing.T) {
	for server, want := range map[string]string{
		"https://192.0.2.1:6443": "192.0.2.1", "https://[2001:db8::1]:6443": "2001:db8::1",
		"https://[::ffff:192.0.2.1]": "192.0.2.1", "https://api.example.com:6443": "",
	} {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		config := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x}}], clusters: [{name: x, cluster: {server: %q}}]}`, server)
		if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		no := errors.New("not there")
		var checked string
		c, err := kube.Late(kube.Options{Kubeconfig: path, Agent: "test", Rate: kube.NodeRate(), Check: func(ip netip.Addr) error {
			checked = ip.String()
			return no
		}})
		if c == nil || checked != want || errors.Is(err, no) != (want != "") {
			t.Errorf("%s: checked %q, %v, want %q", server, checked, err, want)
		}
	}
}

// Where a name leads is checked, too, before anybody is asked there: each time, for it may lead elsewhere.
func TestWhereANameLeadsIsChecked(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x}}], clusters: [{name: x, cluster: {server: "http://localhost:%s"}}]}`, port)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	no := errors.New("not there")
	var right atomic.Bool
	c, err := kube.Late(kube.Options{Kubeconfig: path, Agent: "test", Rate: kube.NodeRate(), Check: func(ip netip.Addr) error {
		if ip.IsLoopback() && !right.Load() {
			return no
		}
		return nil
	}})
	if err != nil {
		t.Fatalf("a name alone says nothing: %v", err)
	}
	if err := c.Answers(t.Context()); !errors.Is(err, no) || asked.Load() > 0 {
		t.Errorf("asked %d times: %v", asked.Load(), err)
	}
	right.Store(true)
	if err := c.Answers(t.Context()); err != nil || asked.Load() != 1 {
		t.Errorf("asked %d times once it may be there: %v", asked.Load(), err)
	}
}

// Of a client that may ask once in 100 s, one interface does, and the election of
// a leader, which must not wait behind its work.
func TestInterfacesShareTheRate(t *testing.T) {
	s := apitest.New(t)
	c := s.ClientAt(t, kube.Rate{QPS: 0.01, Burst: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	nodes := corev1.SchemeGroupVersion.WithResource("nodes")
	ask := map[string]func() error{
		"typed":    func() error { _, err := c.Typed.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); return err },
		"metadata": func() error { _, err := c.Metadata.Resource(nodes).List(ctx, metav1.ListOptions{}); return err },
		"dynamic":  func() error { _, err := c.Dynamic.Resource(nodes).List(ctx, metav1.ListOptions{}); return err },
	}
	var first string
	for name, list := range ask {
		switch err := list(); {
		case first == "" && err == nil:
			first = name
		case first == "" || err == nil || !strings.Contains(err.Error(), "rate"):
			t.Errorf("%s after %q: %v", name, first, err)
		}
	}
	if n := s.Count("GET /api/v1/nodes"); n != 1 {
		t.Errorf("the API server was asked %d times", n)
	}
	for range 3 {
		if _, err := c.Leases.Leases("default").Get(ctx, "controller", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the lease: %v", err)
		}
	}
}

func TestOwnNode(t *testing.T) {
	s := apitest.New(t)
	c := s.Client(t)
	s.Put(t, `{apiVersion: v1, kind: Node, metadata: {name: good}, spec: {podCIDRs: [10.244.1.5/24, 'fd00:1::/64']}, status: {addresses: [{type: Hostname, address: good}, {type: InternalIP, address: 192.0.2.1}]}}`)
	s.Put(t, `{apiVersion: v1, kind: Node, metadata: {name: older}, spec: {podCIDR: 10.244.2.0/24}}`)
	if got, err := c.OwnNode(t.Context(), "good"); err != nil || fmt.Sprint(got) != "{[10.244.1.0/24 fd00:1::/64] [192.0.2.1]}" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := c.OwnNode(t.Context(), "older"); err != nil || fmt.Sprint(got) != "{[10.244.2.0/24] []}" {
		t.Errorf("in the older field: %v, %v", got, err)
	}
	if _, err := c.OwnNode(t.Context(), "none"); err == nil || !strings.Contains(err.Error(), "get node none") {
		t.Errorf("of no Node: %v", err)
	}
}

// client-go's log is ours, on the level debug.
func TestLogTo(t *testing.T) {
	var out bytes.Buffer
	kube.LogTo(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})))
	defer klog.ClearLogger()
	klog.Info("a watch failed")
	klog.Error("a watch failed")
	klog.Flush()
	if out.Len() > 0 {
		t.Errorf("an operator reads %s", out.String())
	}
	kube.LogTo(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	klog.Error("a watch failed")
	if !strings.Contains(out.String(), "level=DEBUG") || !strings.Contains(out.String(), "a watch failed") {
		t.Errorf("with debug lines one reads %s", out.String())
	}
}
