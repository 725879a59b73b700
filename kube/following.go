package kube

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/gridmesh/gridmesh/internal/obs"
)

// lookEvery is how often requests look whether the configuration is another one.
const lookEvery = 2 * time.Second

// movedWithin is how soon watches end where another address is given: thousands of nodes may be
// given it at once.
const movedWithin = 10 * time.Second

// nowhere is where requests go while nothing says where to; no resolver knows it (RFC 6761).
var nowhere = &url.URL{Scheme: "https", Host: "api-server.invalid"}

// following sends requests by a configuration that may come later, and change: a file that
// is empty after a power cut, or whose token was replaced. One that cannot be used leaves
// the last good one in force, and so does a disk that does not answer.
type following struct {
	path string // "" for in-cluster credentials
	by   string // what messages call it
	load func() (*rest.Config, error)
	from *url.URL      // where requests are made out to
	soon time.Duration // within which watches move: movedWithin

	moves   atomic.Int64 // how often another address was given
	mu      sync.Mutex
	looked  time.Time
	looking chan struct{} // closed at the end of a look; nil while there is none
	is      target
	err     error // of what was read last
	read    stamp // of the file that was read last
}

// Unread is why a configuration cannot be used, and so that of each request.
type Unread struct{ error }

// Unwrap is for errors.Is.
func (u *Unread) Unwrap() error { return u.error }

// target is where requests go, and how; the zero value for nowhere yet.
type target struct {
	next  http.RoundTripper
	to    *url.URL
	left  context.Context // ends where watches are to go on elsewhere
	leave context.CancelFunc
}

// stamp tells one version of a file from another.
type stamp struct {
	at   time.Time
	size int64
	err  string
}

func stampOf(path string) stamp {
	if path == "" {
		return stamp{}
	}
	info, err := os.Stat(path)
	if err != nil {
		return stamp{err: err.Error()}
	}
	return stamp{at: info.ModTime(), size: info.Size()}
}

// target is where a request goes. It waits only where there was none yet.
func (f *following) target(ctx context.Context) (target, error) {
	is, looking, err := f.look()
	if is.next != nil || looking == nil {
		return is, err
	}
	select {
	case <-looking:
		is, _, err = f.look()
		return is, err
	case <-ctx.Done():
		return target{}, fmt.Errorf("read %s: %w", f.by, ctx.Err())
	}
}

// look returns what is known; where that may be another one by now it begins to read it.
func (f *following) look() (is target, looking <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if due := now.Sub(f.looked) >= lookEvery || now.Before(f.looked); due && f.looking == nil {
		f.looked, f.looking = now, make(chan struct{})
		go f.follow(f.looking)
	}
	if f.is.next == nil && f.err != nil {
		return target{}, f.looking, &Unread{f.err}
	}
	return f.is, f.looking, nil
}

// follow reads the configuration where it is another one than before.
func (f *following) follow(done chan struct{}) {
	at := stampOf(f.path) // before the file: what changes while it is read is read again
	f.mu.Lock()
	same := f.is.next != nil && f.err == nil && at == f.read
	f.mu.Unlock()
	var next target
	var err error
	if !same {
		next, err = f.use()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	defer close(done)
	f.looking = nil
	if same {
		return
	}
	f.tell(next, err)
	f.read, f.err = at, err
	if err == nil {
		f.move(next)
	}
}

// usable is what Client has.
func (f *following) usable() (ever bool, fault error) {
	_, _, _ = f.look()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.is.next != nil, f.err
}

// tell says what became of a configuration that changed, and of one that cannot be used whenever
// it is for another reason. The first is told by who connects.
func (f *following) tell(next target, err error) {
	log, first := logTo.Load(), f.is.next == nil && f.err == nil
	switch {
	case log == nil || first:
	case err == nil:
		log.Info("the API server is asked by another configuration from now on", obs.KeyName, f.by, obs.KeyAddr, next.to.String())
	case f.err == nil || err.Error() != f.err.Error():
		log.Warn("the configuration of the API server changed, and cannot be used; the one before stays, where there was one", obs.KeyName, f.by, obs.KeyErr, err)
	}
}

// move has requests go by the next target. Connections by the one before that idle end at once and,
// where the next is another place, watches within a time: two API servers may be of two histories,
// and objects of both are no cluster.
func (f *following) move(next target) {
	was := f.is
	f.is = next
	if was.next == nil {
		return
	}
	utilnet.CloseIdleConnectionsFor(was.next)
	if *was.to == *next.to {
		f.is.left, f.is.leave = was.left, was.leave
		return
	}
	f.moves.Add(1)
	time.AfterFunc(rand.N(f.soon), was.leave)
}

func (f *following) use() (is target, err error) {
	cfg, err := f.load()
	if err != nil {
		return is, err
	}
	if is.to, _, err = rest.DefaultServerUrlFor(cfg); err != nil {
		return is, fmt.Errorf("use %s: %w", f.by, told(err))
	}
	if is.next, err = rest.TransportFor(cfg); err != nil {
		return is, fmt.Errorf("use %s: %w", f.by, told(err))
	}
	is.left, is.leave = context.WithCancel(context.Background())
	return is, nil
}

// RoundTrip implements http.RoundTripper.
func (f *following) RoundTrip(req *http.Request) (*http.Response, error) {
	is, err := f.target(req.Context())
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as a RoundTripper must
		}
		return nil, err
	}
	if to := is.to; *to != *f.from {
		req = req.Clone(req.Context())
		req.URL.Scheme, req.URL.Host, req.Host = to.Scheme, to.Host, ""
		req.URL.Path = moved(req.URL.Path, f.from.Path, to.Path)
		if req.URL.RawPath != "" {
			req.URL.RawPath = moved(req.URL.RawPath, f.from.EscapedPath(), to.EscapedPath())
		}
	}
	if !isWatch(req) {
		return is.next.RoundTrip(req)
	}
	return is.watch(req)
}

// watch has a watch end where the target is left.
func (t *target) watch(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	stop := context.AfterFunc(t.left, cancel)
	end := func() { stop(); cancel() }
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		end()
		return nil, err
	}
	resp.Body = &ending{resp.Body, end}
	return resp, nil
}

// ending is a body at whose end something is done.
type ending struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (e *ending) Close() error {
	defer e.end()
	return e.ReadCloser.Close()
}

// moved is a path below another root.
func moved(path, from, to string) string {
	return strings.TrimSuffix(to, "/") + "/" + strings.TrimPrefix(strings.TrimPrefix(path, from), "/")
}

// CloseIdleConnections is for http.Client.
func (f *following) CloseIdleConnections() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.is.next != nil {
		utilnet.CloseIdleConnectionsFor(f.is.next)
	}
}

// host is the address of the API server; "" while none is known.
func (f *following) host() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.is.to == nil {
		return ""
	}
	return f.is.to.String()
}
