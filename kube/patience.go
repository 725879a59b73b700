package kube

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/quiet"
)

// How long a request waits at most before it is made again: whoever answers says how long
// (RFC 9110, Retry-After), client-go obeys ten times without a word, and a node that heard
// "600" while an API server started would be deaf for minutes after it is well. Some wait
// longer than others, or thousands of nodes would be back at once.
const (
	leastWait = 5 // seconds
	mostWait  = 10
)

const retryAfter = "Retry-After"

// patience bounds how long who answers may have its clients wait, and says that it does.
type patience struct {
	next http.RoundTripper

	mu   sync.Mutex
	said quiet.Line
}

// logTo is where clients say what they wait for, and of another configuration; nil: nobody reads it.
var logTo atomic.Pointer[slog.Logger]

// RoundTrip implements http.RoundTripper.
func (p *patience) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := p.next.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode < http.StatusInternalServerError {
		return resp, err
	}
	asked, err := strconv.Atoi(resp.Header.Get(retryAfter))
	if err != nil {
		return resp, nil // none, or a date: client-go does not wait
	}
	wait := waitFor(asked)
	resp.Header.Set(retryAfter, strconv.Itoa(wait))
	if log := logTo.Load(); log != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.said.Say(log.Warn, "the API server, or who answers for it, takes no requests now; trying again",
			obs.KeyReason, fmt.Sprintf("%s %s: %d, %s: %d", req.Method, req.URL.Path, resp.StatusCode, retryAfter, asked), obs.KeyWait, time.Duration(wait)*time.Second)
	}
	return resp, nil
}

// WrappedRoundTripper is what client-go closes idle connections of.
func (p *patience) WrappedRoundTripper() http.RoundTripper { return p.next }

// waitFor is for how many seconds a request waits that was asked to wait for so many.
func waitFor(asked int) int {
	if asked < leastWait {
		return max(1, asked)
	}
	return leastWait + rand.IntN(mostWait-leastWait+1)
}
