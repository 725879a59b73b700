package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// For how long nothing may come of a request. An API server ends what takes it longer than a
// minute, writes the headers of a watch before it has anything to say, and sends what it has;
// what is on the way there may keep a connection alive and pass nothing on, and who waits for
// that would wait for ever. A large list over a poor link takes longer, and brings something all
// the while.
//
// A proxy may hold the headers of a watch back until its first event. Of a quiet kind that is a
// bookmark, 60 to 75 s after the watch began; of one that tells first all there is it comes at once.
const (
	headersWithin  = 75 * time.Second
	watchedWithin  = 90 * time.Second
	streamedWithin = 40 * time.Second
	bytesWithin    = 40 * time.Second
)

// stalled is that nothing came of a request for so long. It is no net.Error: client-go would open a
// watch ten times, and then say that it had ended.
type stalled time.Duration

// Error implements error.
func (s stalled) Error() string {
	return fmt.Sprintf("nothing came for %s from the API server, or from who is on the way to it", time.Duration(s))
}

// progress ends requests of which nothing comes. What a watch says, once it has begun, has times
// of its own (kube/internal/lists).
type progress struct {
	next  http.RoundTripper
	hurry time.Duration // how many times as fast; 0 for once
}

func (p *progress) within(d time.Duration) time.Duration { return d / max(1, p.hurry) }

// RoundTrip implements http.RoundTripper.
func (p *progress) RoundTrip(req *http.Request) (*http.Response, error) {
	watches, within := isWatch(req), p.within(headersOf(req))
	ctx, cancel := context.WithCancelCause(req.Context())
	late := time.AfterFunc(within, func() { cancel(stalled(within)) })
	resp, err := p.next.RoundTrip(req.WithContext(ctx))
	if !late.Stop() && err == nil { // too late, and it was told so
		_ = resp.Body.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		err = why(ctx, err)
		cancel(nil)
		return nil, err
	}
	b := &body{ReadCloser: resp.Body, ctx: ctx, cancel: cancel}
	if !watches {
		b.within = p.within(bytesWithin)
	}
	resp.Body = b
	return resp, nil
}

// WrappedRoundTripper is what client-go closes idle connections of.
func (p *progress) WrappedRoundTripper() http.RoundTripper { return p.next }

// isWatch reports whether a request is answered for as long as somebody listens.
func isWatch(req *http.Request) bool { return asks(req, "watch") }

// headersOf is for how long the headers of an answer are waited for.
func headersOf(req *http.Request) time.Duration {
	switch {
	case !isWatch(req):
		return headersWithin
	case asks(req, "sendInitialEvents"):
		return streamedWithin
	}
	return watchedWithin
}

func asks(req *http.Request, what string) bool {
	is, _ := strconv.ParseBool(req.URL.Query().Get(what))
	return is
}

// why is an error, or that of the request's end where it was ended for its slowness.
func why(ctx context.Context, err error) error {
	var slow stalled
	if errors.As(context.Cause(ctx), &slow) {
		return slow
	}
	return err
}

// body ends a request whose answer stops half-way.
type body struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	within time.Duration // 0: it may rest
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.within > 0 {
		late := time.AfterFunc(b.within, func() { b.cancel(stalled(b.within)) })
		defer late.Stop()
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = why(b.ctx, err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
