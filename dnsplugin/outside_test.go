package dnsplugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/gridmesh/gridmesh/dnsplugin/answer"
)

// A next plugin that has no place for a question, as forward above its
// max_concurrent, says nothing of the name, and nothing of whether it is silent.
func TestWhatIsRefusedUnaskedIsNotDenied(t *testing.T) { synctest.Test(t, refusedUnasked) }

func refusedUnasked(t *testing.T) {
	const name = "x.shop.svc.cluster.local."
	g := plugged(answer.Config{Services: true})
	g.Next = plugin.HandlerFunc(func(context.Context, dns.ResponseWriter, *dns.Msg) (int, error) {
		return dns.RcodeRefused, errors.New("concurrent queries exceeded maximum 1000")
	})
	if got := asks(g, "10.1.0.1", name); got != dns.RcodeServerFailure {
		t.Errorf("it is answered %s", dns.RcodeToString[got])
	}
	g.Next = plugin.HandlerFunc(func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		time.Sleep(nextTimeout / 3)
		return exists(ctx, w, r)
	})
	var wg sync.WaitGroup
	for range maxClient {
		wg.Go(func() { asks(g, "10.1.0.1", name) })
	}
	synctest.Wait()
	if got := asks(g, "10.1.0.1", name); got != dns.RcodeServerFailure {
		t.Errorf("beside %d others of the client it is answered %s", maxClient, dns.RcodeToString[got])
	}
	wg.Wait()
}

// A client that asks for names outside whose servers are mute takes no other
// client's place, outside or inside.
func TestOutsideIsBoundedByClient(t *testing.T) { synctest.Test(t, outsideIsBounded) }

func outsideIsBounded(t *testing.T) {
	g := plugged(answer.Config{Services: true})
	var under atomic.Int64
	g.Next = plugin.HandlerFunc(func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		defer under.Add(-1)
		if under.Add(1) > 1024 { // as forward in deploy/
			return dns.RcodeRefused, errors.New("too many")
		}
		if strings.HasSuffix(r.Question[0].Name, "mute.example.") {
			time.Sleep(2 * time.Second)
			return dns.RcodeServerFailure, errors.New("no answer")
		}
		return exists(ctx, w, r)
	})
	var wg sync.WaitGroup
	for i := range 2000 {
		wg.Go(func() { asks(g, "10.1.0.1", fmt.Sprintf("x%d.mute.example.", i)) })
	}
	synctest.Wait()
	if n := under.Load(); n != maxClient {
		t.Errorf("%d questions of one client are under way, of %d", n, maxClient)
	}
	for _, name := range []string{"example.org.", "x.shop.svc.cluster.local."} {
		if got := asks(g, "10.1.0.2", name); got != dns.RcodeSuccess {
			t.Errorf("another client's %s is answered %s", name, dns.RcodeToString[got])
		}
	}
	wg.Wait()
	if n := g.passing.total + len(g.passing.client); n > 0 {
		t.Errorf("%d questions are still under way", n)
	}
}
