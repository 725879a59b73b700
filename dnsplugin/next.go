package dnsplugin

import (
	"context"
	"sync"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metrics"
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
	// maxPending bounds what waits for the next plugin, what is passed to it, and
	// what waits for newer data; maxClient is what of it is one client's, so that no pod takes the place
	// of all.
	maxPending = 512
	maxClient  = maxPending / 4
)

// waiting are questions that wait for one thing, by client.
type waiting struct {
	mu     sync.Mutex
	total  int
	client map[string]int
	silent bool // the last question that was waited for had no answer
}

// enter reports whether one more of a client may wait, and else whether the next
// plugin is silent, so that waiting would be of no use.
func (w *waiting) enter(client string) (may, silent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.total >= maxPending || w.client[client] >= maxClient {
		return false, w.silent
	}
	if w.client == nil {
		w.client = map[string]int{}
	}
	w.total++
	w.client[client]++
	return true, false
}

func (w *waiting) leave(client string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total--
	if w.client[client]--; w.client[client] == 0 {
		delete(w.client, client)
	}
}

func (w *waiting) note(answer bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = !answer
}

// askNext asks the next plugin, and returns nil where it cannot answer soon. A
// name in a client's search list that nobody answers for would else end the
// search: musl never takes a failure for an answer, and glibc waits for one.
//
// busy is that it was not asked, for too many wait already, here or there (forward
// refuses above its max_concurrent, and writes nothing), and that it may well have
// the name: nobody can say that it does not exist.
func (g *Grid) askNext(ctx context.Context, req *request.Request) (reply *dns.Msg, busy bool) {
	if g.Next == nil {
		return nil, false
	}
	client := req.IP()
	if may, silent := g.pending.enter(client); !may {
		return nil, !silent
	}
	defer func() {
		if !busy {
			g.pending.note(reply != nil)
		}
	}()
	type said struct {
		reply *dns.Msg
		rcode int
	}
	done, copied := make(chan said, 1), req.Req.Copy()
	go func() {
		reply, rcode := nonwriter.New(req.W), dns.RcodeServerFailure
		defer func() {
			if fault := recover(); fault != nil { // the server recovers in its own goroutine alone
				log.Errorf("a plugin behind grid failed: %v", fault)
				reply.Msg = nil
			}
			g.pending.leave(client)
			done <- said{reply.Msg, rcode}
		}()
		rcode, _ = g.Next.ServeDNS(ctx, reply, copied)
	}()
	select {
	case next := <-done:
		m := next.reply
		if m == nil || m.Rcode == dns.RcodeServerFailure || m.Rcode == dns.RcodeRefused {
			return nil, m == nil && next.rcode == dns.RcodeRefused
		}
		return m, false
	case <-time.After(nextTimeout):
		return nil, false
	}
}

// pass has the next plugin answer, within bounds of its own: else one client's
// questions outside, for servers that are mute, take all that it asks at a time.
// What is in a zone of this plugin is counted as passed.
func (g *Grid) pass(ctx context.Context, w dns.ResponseWriter, r *dns.Msg, zone string) (rcode int, err error) {
	client := (&request.Request{W: w, Req: r}).IP()
	if may, _ := g.passing.enter(client); !may {
		requests.WithLabelValues(metrics.WithServer(ctx), "failed").Inc()
		return dns.RcodeServerFailure, nil
	}
	defer g.passing.leave(client)
	if zone != "" {
		requests.WithLabelValues(metrics.WithServer(ctx), "passed").Inc()
	}
	return plugin.NextOrFailure(pluginName, g.Next, ctx, w, r)
}

// catchUp is for a Service that the next plugin knows and the data here does
// not: it may be a grid's, just made, whose endpoints others do not tell apart
// by unit. It waits for newer data, and answers from them where they have the
// name.
//
// busy is that it could not wait, for too many do already: a client may have the
// reply only where the name cannot be a grid's or others answered for it before.
func (g *Grid) catchUp(m *dns.Msg, old *state, req *request.Request, zone string, reply *dns.Msg) (result answer.Result, busy bool) {
	if len(reply.Answer) == 0 || !dns.IsSubDomain("svc."+zone, req.Name()) {
		return answer.NotFound, false
	}
	patience, client := catchUpTimeout, req.IP()
	if may, _ := g.behind.enter(client); may {
		defer g.behind.leave(client)
	} else {
		patience, busy = 0, reply.Answer[0].Header().Rrtype != dns.TypeCNAME && !g.known.has(req.Name())
	}
	for begin := time.Now(); ; time.Sleep(catchUpTimeout / 100) {
		if now := g.now.Load(); now != old {
			if result := g.fill(m, now.index, req, zone); result != answer.NotFound {
				return result, false
			}
			old = now
		}
		if time.Since(begin) >= patience {
			return answer.NotFound, busy
		}
	}
}
