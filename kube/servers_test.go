package kube

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

// From where answers came is known, the newest last, and no more than a few of them.
func TestServersAreBounded(t *testing.T) {
	var s servers
	address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}) }
	for i := range 100 {
		s.note(address(0)) // goes on
		s.note(address(1 + i))
	}
	if got := s.take(); len(got) != mostServers || !slices.Contains(got, address(0)) || got[mostServers-1] != address(100) {
		t.Errorf("servers are %v", got)
	}
	if s.note(address(7)); !slices.Equal(s.take(), []netip.Addr{address(7)}) || s.take() != nil {
		t.Error("who answered long ago is told with who did since")
	}
}

// Who was looked for and did not answer is no server: a wrong configuration, or a name that led elsewhere.
func TestServersThatAnswered(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	t.Cleanup(server.Close)
	for url, want := range map[string][]netip.Addr{server.URL: {netip.MustParseAddr("127.0.0.1")}, "http://" + testkit.Nobody(t): nil} {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: k, cluster: {server: %q}}], contexts: [{name: c, context: {cluster: k}}]}`, url)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Late(Options{Kubeconfig: path, Agent: "test"})
		if err != nil {
			t.Fatal(err)
		}
		before := c.Servers()
		_, err = c.Typed.Discovery().ServerVersion()
		if got := c.Servers(); !slices.Equal(got, want) || len(before) > 0 || (err == nil) != (want != nil) {
			t.Errorf("%s: servers are %v, and were %v before anybody was asked; want %v: %v", url, got, before, want, err)
		}
	}
}
