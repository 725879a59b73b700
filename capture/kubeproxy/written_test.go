package kubeproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/gridmesh/gridmesh/internal/sockdiag"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// What kube-proxy 1.36 has among its metrics: that it was told to write, and when it did.
const (
	queued = `# HELP kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds [ALPHA] The last time a sync of proxy rules was queued
kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"} 1.7956717674813943e+09
kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv6"} 1.7956717674814017e+09
`
	wroteFour = "# TYPE " + lastWritten + " gauge\n" + lastWritten + `{ip_family="IPv4"} 1.7956717774813943e+09` + "\n"
	wroteSix  = lastWritten + `{ip_family="IPv6"} 1.7956717774814017e+09` + "\n"
)

// What it says of its health, which is well before it has written anything.
const (
	times     = `{"lastUpdated":"2026-11-26T05:42:52.165215312Z","currentTime":"2026-11-26T05:42:52.165170569Z"`
	healthy   = times + `,"nodeEligible":true,"healthy":true`
	statusOf  = `"%s":{"lastUpdated":"2026-11-26T05:42:47.481381592Z","healthy":true}`
	oldHealth = `{"lastUpdated": "2020-06-03 23:59:53.688063083 +0000 UTC m=+202.631797660","currentTime": "2020-06-03 23:59:53.688063083 +0000 UTC m=+202.631797660", "nodeEligible": true}`
)

// text answers with one, and a code.
func text(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
}

// huge never ends.
func huge(w http.ResponseWriter, _ *http.Request) {
	for line := []byte(strings.Repeat("kubeproxy_some 1\n", 1000)); ; {
		if _, err := w.Write(line); err != nil {
			return
		}
	}
}

// elsewhere sends whoever asks to somebody who would say that all is written.
func elsewhere(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/else" {
		_, _ = io.WriteString(w, queued+wroteFour+wroteSix)
		return
	}
	http.Redirect(w, r, "/else", http.StatusFound)
}

// What a kube-proxy that runs says of what it wrote, whichever it is, and who else may have
// its ports. Nothing is believed but what is its own, and says so.
func TestWord(t *testing.T) {
	up(t)
	hangs := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	four, six := fmt.Sprintf(statusOf, "IPv4"), fmt.Sprintf(statusOf, "IPv6")
	both := []string{"ip", "ip6"}
	well := text(200, healthy+`,"status":{`+four+","+six+"}}")
	for name, tc := range map[string]struct {
		metrics, health http.HandlerFunc // nil: nobody listens
		wrote           []string
		sure            bool
		err             error
	}{
		"it wrote both":           {metrics: text(200, queued+wroteFour+wroteSix), health: well, wrote: both, sure: true},
		"it wrote one":            {metrics: text(200, queued+wroteFour), health: well, wrote: both[:1], sure: true},
		"the other":               {metrics: text(200, queued+wroteSix), wrote: both[1:], sure: true},
		"none, and is well":       {metrics: text(200, queued), health: well, sure: true},
		"an old one wrote":        {metrics: text(200, lastWritten+" 1.59e+09\n"), health: text(200, oldHealth), wrote: both, sure: true},
		"an old one wrote none":   {metrics: text(200, lastWritten+" 0\n"), health: text(200, oldHealth), sure: true},
		"it wrote nobody knows":   {metrics: text(200, lastWritten+" NaN\n"+lastWritten+"\n"), sure: true},
		"health alone":            {health: well, wrote: both},
		"health of what is late":  {health: text(503, times+`,"nodeEligible":true,"healthy":false,"status":{`+four+","+six+"}}"), wrote: both},
		"health of one family":    {health: text(200, healthy+`,"status":{`+six+"}}"), wrote: both[1:]},
		"health of none":          {health: text(200, healthy+"}")},
		"health of an old one":    {health: text(200, oldHealth), wrote: both},
		"metrics hang":            {metrics: hangs, health: well, wrote: both},
		"metrics never end":       {metrics: huge, health: well, wrote: both},
		"metrics are elsewhere":   {metrics: elsewhere, health: well, wrote: both},
		"metrics are somebody's":  {metrics: text(200, "go_threads 7\n"), health: well, wrote: both},
		"metrics are refused":     {metrics: text(403, queued+wroteFour+wroteSix), health: well, wrote: both},
		"an agent has both ports": {metrics: text(200, "gridmesh_frontends 3\n"+lastWritten+" 1.7e+09\n"), health: text(200, healthy+`,"source":"live"}`), err: ErrAgent},
		"nobody listens":          {err: errNobody},
		"garbage":                 {metrics: text(200, "\x00\xff"), health: text(200, "<html>"), err: errNotProxy},
		"no object":               {health: text(200, `["lastUpdated","currentTime"]`), err: errNotProxy},
		"an object of another":    {health: text(200, `{"healthy":true,"status":{"IPv4":{},"IPv6":{}}}`), err: errNotProxy},
		"health is not found":     {health: text(404, healthy+"}"), err: errNotProxy},
		"health is elsewhere":     {health: elsewhere, err: errNotProxy},
		"health hangs":            {health: hangs, err: context.DeadlineExceeded},
		"health never ends":       {health: huge, err: errTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			nobody := testkit.Nobody(t)
			a := Asked{[]string{nobody, listen(t, tc.metrics)}, []string{nobody, listen(t, tc.health)}, time.Minute}
			if strings.Contains(name, "hang") {
				a.Patience = 100 * time.Millisecond
			}
			word, err := a.Word(t.Context())
			if !slices.Equal(word.Wrote, tc.wrote) || word.Sure != tc.sure {
				t.Errorf("got %+v, %v", word, err)
			}
			if !errors.Is(err, tc.err) {
				t.Errorf("got %v, want %v", err, tc.err)
			}
			if err != nil && strings.Contains(err.Error(), "http://") {
				t.Errorf("it names what was asked for: %v", err)
			}
		})
	}
}

// Nobody is asked but root, and where nobody listens it is not root who does: somebody may
// the moment after.
func TestWhoListens(t *testing.T) {
	const root, nobody, other = "root", "nobody listens", "user 1000 listens"
	at := map[string]netip.AddrPort{"four": netip.MustParseAddrPort("127.0.0.1:10249"), "six": netip.MustParseAddrPort("[::1]:10249")}
	for name, tc := range map[string]struct {
		local     string
		uid       uint32
		only      bool
		four, six string
	}{
		"root's":                      {"127.0.0.1:10249", 0, false, root, nobody},
		"root's, of IPv6":             {"[::1]:10249", 0, false, nobody, root},
		"root's, of all":              {"0.0.0.0:10249", 0, false, root, nobody},
		"root's, of both":             {"[::]:10249", 0, false, root, root},
		"root's, of all of IPv6":      {"[::]:10249", 0, true, nobody, root},
		"root's, elsewhere":           {"192.0.2.1:10249", 0, false, nobody, nobody},
		"root's, another port":        {"127.0.0.1:10256", 0, false, nobody, nobody},
		"somebody's":                  {"127.0.0.1:10249", 1000, false, other, nobody},
		"somebody's, of all":          {"0.0.0.0:10249", 1000, false, other, nobody},
		"somebody's, of both":         {"[::]:10249", 1000, false, other, other},
		"somebody's, of all of IPv6":  {"[::]:10249", 1000, true, nobody, other},
		"somebody's, elsewhere":       {"192.0.2.1:10249", 1000, false, nobody, nobody},
		"somebody's, another port":    {"127.0.0.1:10256", 1000, false, nobody, nobody},
		"somebody's, of IPv6 and ::1": {"[::1]:10249", 1000, false, nobody, other},
	} {
		list := []sockdiag.Socket{{Local: netip.MustParseAddrPort("127.0.0.1:22")}, {ID: sockdiag.ID{7}, Local: netip.MustParseAddrPort(tc.local), UID: tc.uid, V6Only: tc.only}}
		for family, want := range map[string]string{"four": tc.four, "six": tc.six} {
			ids, err := rootAmong(list, at[family])
			if is := fmt.Sprint(err); (err == nil) != (want == root) || err != nil && !strings.Contains(is, want) || err == nil && !slices.Equal(ids, []sockdiag.ID{{7}}) {
				t.Errorf("%s, %s: %v, %v; want %s", name, family, ids, err, want)
			}
		}
	}
	list := []sockdiag.Socket{{Local: at["four"]}, {Local: at["four"], UID: 1000}}
	if _, err := rootAmong(list, at["four"]); err == nil {
		t.Error("root and somebody")
	}
}

// What was answered is believed of nobody who no longer listens then, be it another of root's.
func TestWhoListensMeanwhile(t *testing.T) {
	up(t)
	const address = "127.0.0.1:10249"
	listen := func() net.Listener {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		must(t, err)
		return l
	}
	for name, tc := range map[string]struct {
		next bool
		want error
	}{"nobody": {false, errNobody}, "another": {true, errAnother}} {
		first, next := listen(), net.Listener(nil)
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			must(t, first.Close())
			if tc.next {
				next = listen()
			}
			text(200, queued+wroteFour+wroteSix)(w, r)
		}))
		s.Listener = first
		s.Start()
		word, err := Asked{Metrics: []string{address}, Health: []string{testkit.Nobody(t)}, Patience: time.Minute}.Word(t.Context())
		if word.Sure || !errors.Is(err, tc.want) {
			t.Errorf("%s: %+v, %v; want %v", name, word, err, tc.want)
		}
		s.Close()
		if next != nil {
			must(t, next.Close())
		}
	}
}

// up sets up lo of all threads: a client dials on any of them.
func up(t *testing.T) {
	t.Helper()
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	must(t, netlink.LinkSetUp(lo))
}

// listen is who answers so on loopback, or an address where nobody listens.
func listen(t *testing.T, answers http.HandlerFunc) string {
	t.Helper()
	if answers == nil {
		return testkit.Nobody(t)
	}
	s := httptest.NewServer(answers)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// Who is not root is not believed, however often he opens the port and closes it again, also
// between a look at who listens and the question.
func TestWhoComesAndGoes(t *testing.T) {
	up(t)
	const address, looks = "127.0.0.1:10249", 2000
	stop, opened := make(chan struct{}), 0
	ended := testkit.AsStranger(t, func() error {
		for {
			l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
			if err != nil {
				return err
			}
			opened++
			go forge(l)
			time.Sleep(2 * time.Millisecond)
			if err := l.Close(); err != nil {
				return err
			}
			select {
			case <-time.After(2 * time.Millisecond):
			case <-stop:
				return nil
			}
		}
	})
	a, believed, met := Asked{Metrics: []string{address}, Patience: time.Minute}, 0, 0
	for range looks {
		word, err := a.Word(t.Context())
		if word.Sure {
			believed++
		}
		if errors.Is(err, errStranger) {
			met++
		}
	}
	close(stop)
	must(t, <-ended)
	if met == 0 {
		t.Error("he was never met: nothing is tried")
	}
	if believed > 0 {
		t.Errorf("believed in %d of %d looks, while he opened the port %d times", believed, looks, opened)
	}
}

// Who takes the port of its metrics does not have its health believed, which says less.
func TestWhoTakesThePortOfMetrics(t *testing.T) {
	up(t)
	const address = "127.0.0.1:10249"
	health := listen(t, text(200, healthy+`,"status":{`+fmt.Sprintf(statusOf, "IPv4")+"}}"))
	a := Asked{Metrics: []string{address}, Health: []string{health}, Patience: time.Minute}
	if word, err := a.Word(t.Context()); err != nil || len(word.Wrote) != 1 {
		t.Fatalf("with nobody there: %+v, %v: nothing is tried", word, err)
	}
	taken, stop := make(chan struct{}), make(chan struct{})
	ended := testkit.AsStranger(t, func() error {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
		if err != nil {
			return err
		}
		close(taken)
		<-stop
		return l.Close()
	})
	<-taken
	if word, err := a.Word(t.Context()); !errors.Is(err, errStranger) || len(word.Wrote) > 0 {
		t.Errorf("got %+v, %v", word, err)
	}
	close(stop)
	must(t, <-ended)
}

// forge answers as a kube-proxy that has written all.
func forge(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = c.Read(make([]byte, 4096))
		_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\n"+queued+wroteFour+wroteSix)
		_ = c.Close()
	}
}

// What keeps failing in one way is said in the same words each time: who waits says what is new.
func TestSameWords(t *testing.T) {
	up(t)
	for name, answer := range map[string]string{"no answer": "", "half a header": "HTTP/1.0 200 OK\r\n", "half a body": "HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nx"} {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		must(t, err)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Read(make([]byte, 1)) // what is not read of a question resets
				_, _ = io.WriteString(c, answer)
				_ = c.Close()
			}
		}()
		said := map[string]bool{}
		a := Asked{Metrics: []string{l.Addr().String()}, Health: []string{testkit.Nobody(t)}, Patience: time.Minute}
		for range 20 {
			word, err := a.Word(t.Context())
			if err == nil || word.Sure {
				t.Fatalf("%s: %+v, %v", name, word, err)
			}
			said[err.Error()] = true
		}
		if len(said) > 1 {
			t.Errorf("%s: it is said in %d ways: %v", name, len(said), said)
		}
		must(t, l.Close())
	}
}
