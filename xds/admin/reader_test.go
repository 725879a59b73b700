package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers on a socket as h says.
func serve(t *testing.T, h http.HandlerFunc) *Reader {
	t.Helper()
	dir, err := os.MkdirTemp("", "admin") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "admin.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-done; _ = os.RemoveAll(dir) })
	return New(socket)
}

// holding is what Envoy 1.40 holds, in its own words.
const holding = `xds::observability_name::xds
xds::default_priority::max_connections::1024
xds::added_via_api::false
xds::/run/gridmesh/xds.sock::cx_active::1
xds::/run/gridmesh/xds.sock::health_flags::healthy
10.96.0.10:80::observability_name::10.96.0.10:80
10.96.0.10:80::outlier::success_rate_average::-1
10.96.0.10:80::default_priority::max_connections::4294967295
10.96.0.10:80::high_priority::max_retries::3
10.96.0.10:80::added_via_api::true
10.96.0.10:80::10.1.0.1:8080::cx_active::2
10.96.0.10:80::10.1.0.1:8080::cx_connect_fail::0
10.96.0.10:80::10.1.0.1:8080::cx_total::7
10.96.0.10:80::10.1.0.1:8080::rq_total::9
10.96.0.10:80::10.1.0.1:8080::hostname::
10.96.0.10:80::10.1.0.1:8080::health_flags::healthy
10.96.0.10:80::10.1.0.1:8080::weight::1
10.96.0.10:80::10.1.0.1:8080::priority::0
10.96.0.10:80::10.1.0.1:8080::success_rate::-1
10.96.0.10:80::[fd00::1]:8080::cx_active::0
10.96.0.10:80::[fd00::1]:8080::cx_connect_fail::1
10.96.0.10:80::[fd00::1]:8080::cx_total::1
10.96.0.10:80::[fd00::1]:8080::health_flags::/failed_outlier_check/failed_eds_health
10.96.0.10:80::[fd00::1]:8080::priority::1
[fd00:96::2]:80::observability_name::[fd00:96::2]:80
[fd00:96::2]:80::added_via_api::true
[fd00:96::2]:80::[fd00::1]:8080::cx_total::4
[fd00:96::2]:80::[fd00::1]:8080::priority::0
10.96.0.11:80::added_via_api::true
`

func TestClusters(t *testing.T) {
	r := serve(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.String() != "/clusters" {
			http.NotFound(w, q)
		}
		fmt.Fprint(w, holding)
	})
	got, err := r.Clusters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Cluster{
		{Name: "10.96.0.10:80", Endpoints: []Endpoint{
			{Address: netip.MustParseAddrPort("10.1.0.1:8080"), Connections: 7, Active: 2},
			{Address: netip.MustParseAddrPort("[fd00::1]:8080"), Tier: 1, Ejected: true, Unhealthy: true, Connections: 1, Failed: 1},
		}},
		{Name: "[fd00:96::2]:80", Endpoints: []Endpoint{{Address: netip.MustParseAddrPort("[fd00::1]:8080"), Connections: 4}}},
		{Name: "10.96.0.11:80"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	uses := Uses(got)
	if len(uses) != 3 || uses[1] != (Use{Cluster: "10.96.0.10:80", End: want[0].Endpoints[1].Address, Counters: Counters{1, 1, 0}, Ejected: 1}) {
		t.Errorf("of each endpoint: %+v", uses)
	}
}

// bad is an answer, and what is said of it.
type bad struct {
	answer http.HandlerFunc
	want   string
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

// half is an Envoy that ends while it answers.
func half(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		fmt.Fprint(w, text[:len(text)/2])
	}
}

// badAnswers: what Envoy does not answer, or not as it should, is an error that
// says so, after a bounded time and a bounded number of bytes.
func badAnswers(t *testing.T, ask func(context.Context, *Reader) error, cases map[string]bad) {
	t.Helper()
	cases["refusal"] = bad{func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }, "403"}
	cases["silence"] = bad{func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }, "deadline exceeded"}
	for what, tc := range cases {
		r := serve(t, tc.answer)
		r.most = 8 << 10
		ctx, cancel := context.WithCancel(t.Context())
		if what == "silence" {
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		}
		err := ask(ctx, r)
		cancel()
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", what, err, tc.want)
		}
	}
	if err := ask(t.Context(), New(filepath.Join(t.TempDir(), "none"))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without an Envoy: %v", err)
	}
}

func TestBadClusters(t *testing.T) {
	badAnswers(t, func(ctx context.Context, r *Reader) error { _, err := r.Clusters(ctx); return err }, map[string]bad{
		"nothing":     {says(""), "EOF"},
		"text":        {says("no clusters here\n"), "says nothing of a cluster"},
		"JSON":        {says("{\"cluster_statuses\":[]}\n"), "says nothing of a cluster"},
		"half of it":  {half(holding), "EOF"},
		"without end": {says(strings.Repeat("x::added_via_api::true\n", 2000)), ErrTooLarge.Error()},
	})
	if _, err := decode(strings.NewReader(strings.Repeat("x", 2*maxLine))); !errors.Is(err, bufio.ErrBufferFull) {
		t.Errorf("a line without end: %v", err)
	}
}

// FuzzDecode reads what no Envoy writes.
func FuzzDecode(f *testing.F) {
	f.Add(holding)
	f.Add("a::added_via_api::true\na::10.1.0.1:80::cx_total::-1\na::b::cx_total::1\n")
	f.Add("::added_via_api::true\n::::::\n::[::1]:1::priority::9\n10.1.0.1:80::cx_total::1\n")
	f.Add("a::10.1.0.1:80::cx_total::1\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := decode(strings.NewReader(text))
		if err == nil && len(list) > strings.Count(text, "added_via_api") {
			t.Errorf("%d clusters of %q", len(list), text)
		}
		for _, c := range list {
			for _, e := range c.Endpoints {
				if !e.Address.IsValid() || e.Tier < 0 {
					t.Errorf("endpoint %+v of %s", e, c.Name)
				}
			}
		}
	})
}

// What goes wrong with a page is said without its address, which is long.
func TestErrorsHaveNoAddress(t *testing.T) {
	silent := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }))
	absent := New(filepath.Join(t.TempDir(), "none.sock"))
	for what, c := range map[string]struct {
		of   *Reader
		want string
	}{"silent": {silent, ": context deadline exceeded"}, "absent": {absent, "none.sock: connect: no such file or directory"}} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := c.of.Stats(ctx)
		_, clusters := c.of.Clusters(ctx)
		cancel()
		for _, err := range []error{err, clusters} {
			if err == nil || !strings.HasSuffix(err.Error(), c.want) || strings.Contains(err.Error(), "http://") || strings.Contains(err.Error(), "filter") {
				t.Errorf("%s: %v, want it to end with %q", what, err, c.want)
			}
		}
	}
}
