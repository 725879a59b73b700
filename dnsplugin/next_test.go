package dnsplugin

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"

	"github.com/gridmesh/gridmesh/dnsplugin/answer"
)

// asks returns what becomes of a client's question.
func asks(g *Grid, client, name string) (rcode int) {
	rec := dnstest.NewRecorder(&test.ResponseWriter{RemoteIP: client})
	rcode, _ = g.ServeDNS(context.Background(), rec, new(dns.Msg).SetQuestion(name, dns.TypeA))
	if rec.Msg != nil {
		return rec.Msg.Rcode
	}
	return rcode
}

func exists(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	return dns.RcodeSuccess, w.WriteMsg(new(dns.Msg).SetReply(r))
}

// A client that asks for many names at once has no other client's denied, and
// none of its own: a denial is for names that nobody has.
func TestManyQuestionsDenyNothing(t *testing.T) { synctest.Test(t, manyQuestionsDenyNothing) }

func manyQuestionsDenyNothing(t *testing.T) {
	for clients, want := range map[int]int{1: dns.RcodeSuccess, 3: dns.RcodeSuccess, maxPending: dns.RcodeServerFailure} {
		g := plugged(answer.Config{Services: true})
		g.Next = plugin.HandlerFunc(func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			time.Sleep(nextTimeout / 3) // a slow link
			return exists(ctx, w, r)
		})
		var wg sync.WaitGroup
		for i := range 2 * maxPending {
			wg.Go(func() {
				if rcode := asks(g, fmt.Sprintf("10.1.%d.%d", i%clients>>8, i%clients&255), fmt.Sprintf("x%d.shop.svc.cluster.local.", i)); rcode == dns.RcodeNameError {
					t.Errorf("question %d of %d clients is denied", i, clients)
				}
			})
		}
		synctest.Wait()
		if got := asks(g, "10.2.0.1", "late.shop.svc.cluster.local."); got != want {
			t.Errorf("beside %d clients: %s, want %s", clients, dns.RcodeToString[got], dns.RcodeToString[want])
		}
		wg.Wait()
	}
}

// Names that the next plugin has and the data here has not yet wait for the data
// within the same bounds, however fast the next plugin is.
func TestWaitingForDataIsBounded(t *testing.T) { synctest.Test(t, waitingForDataIsBounded) }

func waitingForDataIsBounded(t *testing.T) {
	g := plugged(answer.Config{Services: true})
	g.Next = plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		m := new(dns.Msg).SetReply(r)
		m.Answer = []dns.RR{test.A(r.Question[0].Name + " 5 IN A 192.0.2.1")}
		return dns.RcodeSuccess, w.WriteMsg(m)
	})
	var wg sync.WaitGroup
	var found, failed atomic.Int64
	for i := range 10 * maxClient {
		wg.Go(func() {
			switch rcode := asks(g, "10.1.0.1", fmt.Sprintf("x%d.shop.svc.cluster.local.", i)); rcode {
			case dns.RcodeSuccess:
				found.Add(1)
			case dns.RcodeServerFailure:
				failed.Add(1)
			default:
				t.Errorf("question %d is answered %s", i, dns.RcodeToString[rcode])
			}
		})
	}
	synctest.Wait() // those who wait wait; the others were answered
	if n := failed.Load(); n < 9*maxClient || found.Load() > 0 {
		t.Errorf("%d wait for data, %d were answered; at most %d of a client may wait", 10*maxClient-n-found.Load(), found.Load(), maxClient)
	}
	wg.Wait()
	if n := found.Load(); n == 0 || n > maxClient {
		t.Errorf("%d were answered in the end", n)
	}
	if got := asks(g, "10.1.0.2", "late.shop.svc.cluster.local."); got != dns.RcodeSuccess {
		t.Errorf("another client is answered %s", dns.RcodeToString[got])
	}
}

// Whoever asks for every address as a pod's name has no name that was seen
// denied, and neither are those names: nobody here can tell.
func TestPodNamesPushNothingOut(t *testing.T) {
	g := plugged(answer.Config{Services: true})
	g.Next = plugin.HandlerFunc(exists)
	const seen, pod = "late.shop.svc.cluster.local.", "10-0-0-1.default.pod.cluster.local."
	asks(g, "10.1.0.1", seen)
	for i := range 500 {
		asks(g, "10.1.0.1", fmt.Sprintf("10-%d-%d-%d.default.pod.cluster.local.", i>>16, i>>8&255, i&255))
	}
	if n := len(g.known.names); n != 1 {
		t.Errorf("%d names are remembered", n)
	}
	g.Next = plugin.HandlerFunc(func(context.Context, dns.ResponseWriter, *dns.Msg) (int, error) { return dns.RcodeServerFailure, nil })
	for _, name := range []string{seen, pod} {
		if got := asks(g, "10.1.0.1", name); got != dns.RcodeServerFailure {
			t.Errorf("%s is answered %s with the next plugin away", name, dns.RcodeToString[got])
		}
	}
}
