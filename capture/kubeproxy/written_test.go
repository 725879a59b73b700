package kubeproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

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
		"an agent has both ports": {metrics: text(200, "gridmesh_frontends 3\n"+lastWritten+" 1.7e+09\n"), health: text(200, healthy+`,"source":"live"}`), err: errAgent},
		"nobody listens":          {err: unix.ECONNREFUSED},
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

// Who is not root is asked nothing: anybody on the node's network may listen.
func TestWhoListens(t *testing.T) {
	at := netip.MustParseAddrPort("127.0.0.1:10249")
	for name, tc := range map[string]struct {
		local string
		uid   uint32
		root  bool
	}{
		"root's":                    {"127.0.0.1:10249", 0, true},
		"somebody's":                {"127.0.0.1:10249", 65534, false},
		"somebody's, of all":        {"0.0.0.0:10249", 1000, false},
		"somebody's, of both":       {"[::]:10249", 1000, false},
		"somebody's, elsewhere":     {"192.0.2.1:10249", 1000, true},
		"somebody's, another port":  {"127.0.0.1:10256", 1000, true},
		"somebody's, of IPv6 alone": {"[::1]:10249", 1000, true},
	} {
		list := []sockdiag.Socket{{Local: netip.MustParseAddrPort("127.0.0.1:22")}, {Local: netip.MustParseAddrPort(tc.local), UID: tc.uid}}
		if err := listensAsRoot(list, at); (err == nil) != tc.root {
			t.Errorf("%s: %v", name, err)
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
