package dnsplugin

import (
	"context"
	"errors"
	"fmt"
	"net"
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
// within the same bounds, however fast the next plugin is. Beyond them nobody can
// say that its reply, of all units, is not about a grid's name: it is given for
// names alone that cannot be one or that were waited for before.
func TestWaitingForDataIsBounded(t *testing.T) { synctest.Test(t, waitingForDataIsBounded) }

func waitingForDataIsBounded(t *testing.T) {
	const seen, alias = "seen.shop.svc.cluster.local.", "alias.shop.svc.cluster.local."
	g := plugged(answer.Config{Services: true})
	g.Next = plugin.HandlerFunc(func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		if r.Question[0].Name != alias {
			return hasAll(ctx, w, r)
		}
		m := new(dns.Msg).SetReply(r)
		m.Answer = []dns.RR{test.CNAME(alias + " 5 IN CNAME example.org."), test.A("example.org. 5 IN A 192.0.2.1")}
		return dns.RcodeSuccess, w.WriteMsg(m)
	})
	if got := asks(g, "10.1.0.1", seen); got != dns.RcodeSuccess {
		t.Errorf("a name that was waited for is answered %s", dns.RcodeToString[got])
	}
	var wg sync.WaitGroup
	var failed, found atomic.Int64
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
	synctest.Wait() // those who wait wait; the others failed
	if n, early := failed.Load(), found.Load(); n != 9*maxClient || early > 0 {
		t.Errorf("%d wait for data, %d were answered at once; of a client %d may wait", 10*maxClient-n-early, early, maxClient)
	}
	begin := time.Now()
	for _, name := range []string{seen, alias} {
		if got := asks(g, "10.1.0.1", name); got != dns.RcodeSuccess || time.Since(begin) > 0 {
			t.Errorf("%s is answered %s after %s", name, dns.RcodeToString[got], time.Since(begin))
		}
	}
	if got := asks(g, "10.1.0.2", "late.shop.svc.cluster.local."); got != dns.RcodeSuccess {
		t.Errorf("another client is answered %s", dns.RcodeToString[got])
	}
	wg.Wait()
}

// hasAll is a next plugin that has an address for every name.
func hasAll(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	m := new(dns.Msg).SetReply(r)
	m.Answer = []dns.RR{test.A(r.Question[0].Name + " 5 IN A 192.0.2.1")}
	return dns.RcodeSuccess, w.WriteMsg(m)
}

// The same over the network: one client that asks for very many new names at
// once, and again where that failed, has every one of them answered.
func TestManyNewNamesAreAnswered(t *testing.T) {
	g := plugged(answer.Config{Services: true})
	g.Next = plugin.HandlerFunc(hasAll)
	listener, err := net.Listen("tcp", "127.0.0.1:0") // where no question is lost
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{Listener: listener, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		if rcode, _ := g.ServeDNS(context.Background(), w, r); rcode != dns.RcodeSuccess {
			_ = w.WriteMsg(new(dns.Msg).SetRcode(r, rcode)) // as the server of CoreDNS does
		}
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.ActivateAndServe() }()
	var wg sync.WaitGroup
	for i := range 2 * maxClient {
		wg.Go(func() {
			client := dns.Client{Net: "tcp", Timeout: 30 * time.Second}
			question := new(dns.Msg).SetQuestion(fmt.Sprintf("x%d.shop.svc.cluster.local.", i), dns.TypeA)
			reply, _, err := client.Exchange(question, listener.Addr().String())
			for begin := time.Now(); err == nil && reply.Rcode == dns.RcodeServerFailure && time.Since(begin) < time.Minute; {
				time.Sleep(catchUpTimeout / 5)
				reply, _, err = client.Exchange(question, listener.Addr().String())
			}
			if err != nil || reply.Rcode != dns.RcodeSuccess || len(reply.Answer) != 1 {
				t.Errorf("question %d: %v, %v", i, err, reply)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(server.Shutdown(), <-ended); err != nil {
		t.Error(err)
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
