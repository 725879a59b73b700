package kube

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mover is a client with a watch of an API server, of which there are more.
type mover struct {
	path  string
	seen  chan string // tokens by which anything else than a watch was asked
	c     *Client
	ended <-chan struct{}
}

// server opens watches, and says nothing.
func (m *mover) server(t *testing.T) string {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isWatch(r) {
			m.seen <- r.Header.Get("Authorization")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// give has the client use another configuration, and waits until it does.
func (m *mover) give(t *testing.T, server, token string) {
	t.Helper()
	config := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x, user: x}}],
 clusters: [{name: x, cluster: {server: %q, insecure-skip-tls-verify: true}}], users: [{name: x, user: {token: %q}}]}`, server, token)
	if err := os.WriteFile(m.path+".new", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(m.path+".new", m.path); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); m.c != nil; time.Sleep(20 * time.Millisecond) {
		if err := m.c.Reachable(t.Context()); err != nil {
			t.Fatal(err)
		}
		if <-m.seen == "Bearer "+token {
			return
		}
		if time.Since(begin) > 30*time.Second {
			t.Fatalf("the token %s is never shown", token)
		}
	}
}

// ends reports whether the watch ends within a time.
func (m *mover) ends(within time.Duration) bool {
	select {
	case <-m.ended:
		return true
	case <-time.After(within):
		return false
	}
}

// A watch of an API server that is not asked any more ends soon, and it counts as a move: what another
// tells is of another history. With another token it goes on.
func TestWatchesMoveToAnotherAddress(t *testing.T) {
	t.Parallel()
	m := &mover{path: filepath.Join(t.TempDir(), "kubeconfig"), seen: make(chan string, 1)}
	one, two := m.server(t), m.server(t)
	m.give(t, one, "first")
	var err error
	// Who moves does so at once: a watch that ends with the token has ended long before it was waited for.
	if m.c, err = Late(Options{Kubeconfig: m.path, Agent: "test", Rate: NodeRate(), moveWithin: time.Nanosecond}); err != nil {
		t.Fatal(err)
	}
	w, err := m.c.Typed.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	m.ended = ended
	go func() {
		defer close(ended)
		<-w.ResultChan()
	}()
	m.give(t, one, "second")
	if m.ends(2*time.Second) || m.c.Moves() != 0 {
		t.Fatalf("it ended with the token, or moved %d times", m.c.Moves())
	}
	m.give(t, two, "third")
	if !m.ends(time.Minute) || m.c.Moves() != 1 {
		t.Errorf("it goes on by the address before, or moved %d times", m.c.Moves())
	}
}
