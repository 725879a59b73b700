package kube

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
)

const (
	// allowedFor and deniedFor are how long the API server's word about a token
	// counts, and knownFor how long one that was good is known.
	allowedFor = time.Minute
	deniedFor  = 10 * time.Second
	knownFor   = time.Hour
	// longestToken is more than any cluster's; the API server is not asked about
	// more bytes.
	longestToken = 16 << 10
	// unknownRate and unknownBurst bound how often the API server is asked about tokens that
	// nobody knows: whoever guesses costs it little, and delays nobody who is known.
	unknownRate   = 2 // a second
	unknownBurst  = 10
	maxTokens     = 256
	reviewTimeout = 5 * time.Second
	knownReviews  = 4 // at once, of tokens that were good
)

// DelegatingAuth lets those through to a handler who show a token of the
// cluster whose owner may get the path there (a nonResourceURL of RBAC): it asks
// the API server by TokenReview and SubjectAccessReview, and remembers what it said.
// Without its word nobody is let through.
type DelegatingAuth struct {
	client *Client
	next   http.Handler
	peers  *peers
	// Questions to a slow API server wait for their like only: a token that was
	// good for no other, and a new one of a known address for no token of an unknown one.
	again, renewals, unknown lane

	mu     sync.Mutex
	tokens map[tokenKey]word
}

// lane has a place for each review at once.
type lane chan struct{}

type tokenKey [sha256.Size]byte

// word is what the API server said about a token and a path.
type word struct {
	code  int // of HTTP: 200, 401 or 403
	until time.Time
	good  time.Time // when it was last good; zero: never
}

// NewDelegatingAuth stands before a handler.
func NewDelegatingAuth(c *Client, next http.Handler) *DelegatingAuth {
	return &DelegatingAuth{
		client: c, next: next, tokens: map[tokenKey]word{}, peers: newPeers(),
		again: make(lane, knownReviews), renewals: make(lane, 1), unknown: make(lane, 1),
	}
}

// ServeHTTP implements http.Handler.
func (a *DelegatingAuth) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	code := http.StatusUnauthorized
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && token != "" && len(token) <= longestToken {
		code = a.ask(r.Context(), r.RemoteAddr, token, r.URL.Path)
	}
	switch code {
	case http.StatusOK:
		a.peers.praise(r.RemoteAddr, time.Now())
		a.next.ServeHTTP(w, r)
		return
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	http.Error(w, http.StatusText(code), code)
}

// ask is what is known of a token, or what the API server says.
func (a *DelegatingAuth) ask(ctx context.Context, from, token, path string) int {
	key := tokenKey(sha256.Sum256([]byte(token + "\x00" + path)))
	is, fresh := a.known(key, time.Now())
	if fresh {
		return is.code
	}
	queue := a.again
	if is.good.IsZero() {
		known, ok := a.peers.admit(from, time.Now())
		if !ok {
			return http.StatusTooManyRequests
		}
		if queue = a.unknown; known {
			queue = a.renewals
		}
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	select {
	case queue <- struct{}{}:
		defer func() { <-queue }()
	case <-ctx.Done():
		return http.StatusServiceUnavailable
	}
	if is, fresh = a.known(key, time.Now()); fresh { // who came first has asked
		return is.code
	}
	code, err := a.client.review(ctx, token, path)
	if err != nil {
		return http.StatusServiceUnavailable
	}
	a.learn(key, code, time.Now())
	return code
}

func (a *DelegatingAuth) known(key tokenKey, now time.Time) (w word, fresh bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w = a.tokens[key]
	if now.Sub(w.good) >= knownFor {
		w.good = time.Time{}
	}
	return w, now.Before(w.until)
}

func (a *DelegatingAuth) learn(key tokenKey, code int, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.tokens) >= maxTokens {
		a.forget(now)
	}
	w := word{code: code, until: now.Add(deniedFor)}
	if code == http.StatusOK {
		w.until, w.good = now.Add(allowedFor), now
	}
	a.tokens[key] = w
}

// forget makes room: unknown tokens go, and then, where they are no more, all.
func (a *DelegatingAuth) forget(now time.Time) {
	for key, w := range a.tokens {
		if w.good.IsZero() || now.Sub(w.good) >= knownFor {
			delete(a.tokens, key)
		}
	}
	if len(a.tokens) >= maxTokens {
		clear(a.tokens)
	}
}

// review asks whose a token is, and whether he may get a path.
func (c *Client) review(ctx context.Context, token, path string) (code int, err error) {
	who, err := c.Typed.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review a token: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user, extra := who.Status.User, map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	may, err := c.Typed.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		},
	}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return 0, fmt.Errorf("review access to %s: %w", path, err)
	case !may.Status.Allowed:
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// SelfSigned is a TLS server's configuration with a certificate of its own, made
// now and good for a year: what is sent is encrypted, and who it is sent to is
// not proven.
func SelfSigned(name string) (*tls.Config, error) {
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(name, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}, nil
}
