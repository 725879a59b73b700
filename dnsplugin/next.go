package dnsplugin

import (
	"context"
	"time"

	"github.com/coredns/coredns/plugin/pkg/nonwriter"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/gridmesh/gridmesh/dnsplugin/answer"
)

const (
	// nextTimeout is how long the next plugin may take to answer for a name that
	// no Service has.
	nextTimeout = time.Second
	// catchUpTimeout is how much later the data here may have a Service than the
	// next plugin's.
	catchUpTimeout = 500 * time.Millisecond
	// maxPending bounds what waits for a next plugin that is silent.
	maxPending = 512
)

// askNext asks the next plugin, and returns nil where it cannot answer soon. A
// name in a client's search list that nobody answers for would else end the
// search: musl never takes a failure for an answer, and glibc waits for one.
func (g *Grid) askNext(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) *dns.Msg {
	if g.Next == nil {
		return nil
	}
	if g.pending.Add(1) > maxPending {
		g.pending.Add(-1)
		return nil
	}
	done := make(chan *dns.Msg, 1)
	go func() {
		reply := nonwriter.New(w)
		defer func() {
			if fault := recover(); fault != nil { // the server recovers in its own goroutine alone
				log.Errorf("a plugin behind grid failed: %v", fault)
				reply.Msg = nil
			}
			g.pending.Add(-1)
			done <- reply.Msg
		}()
		_, _ = g.Next.ServeDNS(ctx, reply, r.Copy())
	}()
	select {
	case m := <-done:
		if m == nil || m.Rcode == dns.RcodeServerFailure || m.Rcode == dns.RcodeRefused {
			return nil
		}
		return m
	case <-time.After(nextTimeout):
		return nil
	}
}

// catchUp is for a Service that the next plugin knows and the data here does
// not: it may be a grid's, just made, whose endpoints others do not tell apart
// by unit. It waits for newer data, and answers from them where they have the
// name.
func (g *Grid) catchUp(m *dns.Msg, old *state, req *request.Request, zone string, reply *dns.Msg) answer.Result {
	if len(reply.Answer) == 0 || !dns.IsSubDomain("svc."+zone, req.Name()) {
		return answer.NotFound
	}
	for begin := time.Now(); ; time.Sleep(catchUpTimeout / 100) {
		if now := g.now.Load(); now != old {
			if result := g.fill(m, now.index, req, zone); result != answer.NotFound {
				return result
			}
			old = now
		}
		if time.Since(begin) > catchUpTimeout {
			return answer.NotFound
		}
	}
}
