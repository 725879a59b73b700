package run

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// Checks are the named checks behind /healthz, /livez and /readyz. The zero
// Checks pass.
type Checks struct {
	mu   sync.RWMutex
	list []check
}

type check struct {
	name string
	live bool
	ok   func() error
}

// Live adds a check that the process still works: while it fails, a restart
// may help. It is asked at every request, by several at once.
func (c *Checks) Live(name string, ok func() error) { c.add(check{name, true, ok}) }

// Ready adds a check that the process can do its work: while it fails, others
// should not send it any.
func (c *Checks) Ready(name string, ok func() error) { c.add(check{name, false, ok}) }

func (c *Checks) add(k check) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, k)
}

// Handler answers at /healthz and /livez for the checks of liveness, and at
// /readyz for all: 200 and "ok", or 503 and the names of those that fail. Why
// they fail is not for everybody to read.
func (c *Checks) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/healthz", "/livez"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { answer(w, c.failing(false)) })
	}
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, c.failing(true)) })
	return mux
}

func answer(w http.ResponseWriter, failing []string) {
	if len(failing) > 0 {
		http.Error(w, "not ok: "+strings.Join(failing, ", "), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// failing returns the names of the checks that fail, in the order in which
// they were added.
func (c *Checks) failing(ready bool) []string {
	c.mu.RLock()
	list := c.list // only ever appended to
	c.mu.RUnlock()
	var names []string
	for _, k := range list {
		if (k.live || ready) && k.ok() != nil {
			names = append(names, k.name)
		}
	}
	return names
}
