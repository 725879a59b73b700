package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
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

// sample is Envoy's own message, in the form in which it writes it.
func sample(t testing.TB) []byte {
	t.Helper()
	stat := func(name string, n uint64) *adminv3.SimpleMetric { return &adminv3.SimpleMetric{Name: name, Value: n} }
	address := func(ip string, port uint32) *core.Address {
		return &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{Address: ip, PortSpecifier: &core.SocketAddress_PortValue{PortValue: port}}}}
	}
	body, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(&adminv3.Clusters{ClusterStatuses: []*adminv3.ClusterStatus{
		{Name: "xds", HostStatuses: []*adminv3.HostStatus{{Address: &core.Address{Address: &core.Address_Pipe{Pipe: &core.Pipe{Path: "/x"}}}}}},
		{Name: "10.96.0.10:80", AddedViaApi: true, HostStatuses: []*adminv3.HostStatus{
			{Address: address("10.1.0.1", 8080), Stats: []*adminv3.SimpleMetric{stat("cx_active", 2), stat("cx_total", 7), stat("cx_connect_fail", 0), stat("rq_total", 9)}, HealthStatus: &adminv3.HostHealthStatus{EdsHealthStatus: core.HealthStatus_HEALTHY}},
			{Address: address("fd00::1", 8080), Priority: 1, Stats: []*adminv3.SimpleMetric{stat("cx_total", 1), stat("cx_connect_fail", 1)}, HealthStatus: &adminv3.HostHealthStatus{FailedOutlierCheck: true, EdsHealthStatus: core.HealthStatus_UNHEALTHY}},
		}},
		{Name: "10.96.0.11:80", AddedViaApi: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestClusters(t *testing.T) {
	r := serve(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.String() != "/clusters?format=json" {
			http.NotFound(w, q)
		}
		_, _ = w.Write(sample(t))
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
		{Name: "10.96.0.11:80"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// What Envoy does not answer, or not as it should, is an error that says so,
// after a bounded time and a bounded number of bytes.
func TestBadAnswers(t *testing.T) {
	for what, tc := range map[string]struct {
		h    http.HandlerFunc
		want string
	}{
		"nothing": {func(http.ResponseWriter, *http.Request) {}, "EOF"},
		"refusal": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }, "403"},
		"text":    {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "xds::default_priority") }, "invalid character"},
		"a list":  {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[]") }, "was expected"},
		"half of it": {func(w http.ResponseWriter, _ *http.Request) {
			body := sample(t)
			_, _ = w.Write(body[:len(body)/2])
		}, "EOF"},
		"without end": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"cluster_statuses":[`)
			for range 2000 {
				fmt.Fprint(w, `{"name":"x"},`)
			}
		}, ErrTooLarge.Error()},
		"silence": {func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }, "deadline exceeded"},
	} {
		r := serve(t, tc.h)
		r.most = 8 << 10
		ctx, cancel := context.WithCancel(t.Context())
		if what == "silence" {
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		}
		_, err := r.Clusters(ctx)
		cancel()
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", what, err, tc.want)
		}
	}
	if _, err := New(filepath.Join(t.TempDir(), "none")).Clusters(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without an Envoy: %v", err)
	}
}

// FuzzDecode reads what no Envoy writes.
func FuzzDecode(f *testing.F) {
	f.Add(string(sample(f)))
	f.Add(`{"cluster_statuses":[{"name":"a","added_via_api":true,"host_statuses":[{"stats":[{"name":"cx_total","value":"-1"}]}]}]}`)
	f.Add(`{"a":[1,{"b":2}],"cluster_statuses":[]}`)
	f.Fuzz(func(t *testing.T, text string) {
		list, err := decode(strings.NewReader(text))
		for _, c := range list {
			for _, e := range c.Endpoints {
				if err == nil && !e.Address.IsValid() {
					t.Errorf("endpoint %v of %s", e.Address, c.Name)
				}
			}
		}
	})
}
