package healthport

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running are Servers that run until the test ends.
func running(t *testing.T, within ...netip.Prefix) (s *Servers, healthy *atomic.Bool) {
	t.Helper()
	healthy = &atomic.Bool{}
	healthy.Store(true)
	s = New(healthy.Load, within, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s, healthy
}

// asked is what a load balancer is told at an address; "refused" by nobody.
func asked(t *testing.T, host string, port uint16, path string) (code int, weight, answer string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	resp, err := client.Get("http://" + net.JoinHostPort(host, fmt.Sprint(port)) + path)
	if err != nil {
		return 0, "", "refused"
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("X-Load-Balancing-Endpoint-Weight"), strings.TrimSpace(string(all))
}

func answers(port uint16, local int) map[Place]Answer {
	return map[Place]Answer{{port, false}: {topology.ObjectKey{Namespace: "shop", Name: "web"}, local}}
}

// What a load balancer is told is what kube-proxy tells it, at whatever path.
func TestLoadBalancersAreAnswered(t *testing.T) {
	s, healthy := running(t)
	port := uint16(testkit.FreePort(t))
	for _, c := range []struct {
		local   int
		healthy bool
		code    int
	}{{2, true, http.StatusOK}, {0, true, http.StatusServiceUnavailable}, {2, false, http.StatusServiceUnavailable}} {
		healthy.Store(c.healthy)
		if failed := s.Serve(answers(port, c.local)); len(failed) > 0 {
			t.Fatal(failed)
		}
		for _, path := range []string{"/", "/healthz"} {
			code, weight, got := asked(t, "127.0.0.1", port, path)
			want := fmt.Sprintf(`{"service":{"namespace":"shop","name":"web"},"localEndpoints":%d,"serviceProxyHealthy":%v}`, c.local, c.healthy)
			if code != c.code || weight != fmt.Sprint(c.local) || got != want || !json.Valid([]byte(got)) {
				t.Errorf("%+v: %d, weight %q, %s", c, code, weight, got)
			}
		}
	}
	if _, _, got := asked(t, "::1", port, "/"); got != "refused" {
		t.Errorf("the other family is told %s", got)
	}
	s.Serve(nil)
	if _, _, got := asked(t, "127.0.0.1", port, "/"); got != "refused" {
		t.Errorf("of a Service that went one is told %s", got)
	}
}

// Families have counts of their own at one port.
func TestFamilies(t *testing.T) {
	s, _ := running(t)
	port := uint16(testkit.FreePort(t))
	both := answers(port, 1)
	both[Place{port, true}] = Answer{Service: both[Place{port, false}].Service, Local: 3}
	if failed := s.Serve(both); len(failed) > 0 {
		t.Fatal(failed)
	}
	for host, want := range map[string]string{"127.0.0.1": "1", "::1": "3"} {
		if _, weight, got := asked(t, host, port, "/"); weight != want {
			t.Errorf("%s is told %s: %s", host, weight, got)
		}
	}
}

// A port that somebody else has is told, and answered once it is free; others do not wait.
func TestAPortThatIsTaken(t *testing.T) {
	s, _ := running(t)
	other, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	taken, free := uint16(other.Addr().(*net.TCPAddr).Port), uint16(testkit.FreePort(t))
	want := answers(taken, 1)
	want[Place{free, false}] = Answer{Local: 2}
	failed := s.Serve(want)
	if len(failed) != 1 || failed[0].Object != "service shop/web" || !strings.Contains(failed[0].Text, "address already in use") {
		t.Fatalf("%v", failed)
	}
	if _, weight, _ := asked(t, "127.0.0.1", free, "/"); weight != "2" {
		t.Error("another port waits for it")
	}
	_ = other.Close()
	if failed := s.Serve(want); len(failed) != 1 {
		t.Errorf("tried again with each change: %v", failed)
	}
	if failed := s.Again(); len(failed) > 0 {
		t.Fatal(failed)
	}
	if _, weight, _ := asked(t, "127.0.0.1", taken, "/"); weight != "1" {
		t.Error("not answered once it is free")
	}
}

// Where ranges are given, who asks at another address of the node is told nothing.
func TestAddressesOfTheNode(t *testing.T) {
	s, _ := running(t, netip.MustParsePrefix("127.0.0.2/32"))
	port := uint16(testkit.FreePort(t))
	s.Serve(answers(port, 1))
	if _, weight, _ := asked(t, "127.0.0.2", port, "/"); weight != "1" {
		t.Error("not answered there")
	}
	if _, _, got := asked(t, "127.0.0.1", port, "/"); got != "refused" {
		t.Errorf("elsewhere one is told %s", got)
	}
}

// Those who hold connections at one port keep nobody from an answer, there or at another.
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	s, _ := running(t)
	first, second := uint16(testkit.FreePort(t)), uint16(testkit.FreePort(t))
	want := answers(first, 1)
	want[Place{second, false}] = Answer{Local: 2}
	if failed := s.Serve(want); len(failed) > 0 {
		t.Fatal(failed)
	}
	for range 200 {
		conn, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", first))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	for port, want := range map[uint16]string{first: "1", second: "2"} {
		if _, weight, got := asked(t, "127.0.0.1", port, "/"); weight != want {
			t.Errorf("told %q", got)
		}
	}
}

// One load balancer may ask for everything in one moment: each question has its answer.
func TestManyQuestionsAtOnce(t *testing.T) {
	s, _ := running(t)
	want := map[Place]Answer{}
	for range 20 {
		want[Place{Port: uint16(testkit.FreePort(t))}] = Answer{Local: 1}
	}
	if failed := s.Serve(want); len(failed) > 0 {
		t.Fatal(failed)
	}
	var all sync.WaitGroup
	for range 10 {
		for place := range want {
			all.Go(func() {
				if code, _, got := asked(t, "127.0.0.1", place.Port, "/"); code != http.StatusOK {
					t.Errorf("told %d %s", code, got)
				}
			})
		}
	}
	all.Wait()
}

// After the end nobody listens, whatever is still to be served.
func TestTheEnd(t *testing.T) {
	s := New(func() bool { return true }, nil, slog.New(slog.DiscardHandler))
	port := uint16(testkit.FreePort(t))
	s.Serve(answers(port, 1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, _, got := asked(t, "127.0.0.1", port, "/"); got != "refused" {
			t.Errorf("told %s", got)
		}
		s.Serve(answers(port, 1))
	}
}
