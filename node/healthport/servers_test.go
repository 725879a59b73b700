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
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running are Servers that run until the test ends.
func running(t *testing.T, within ...netip.Prefix) (s *Servers, healthy *atomic.Bool) {
	t.Helper()
	healthy = &atomic.Bool{}
	healthy.Store(true)
	s = New(healthy.Load, within, boundsOf(1<<20), slog.New(slog.DiscardHandler))
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
	return askedFrom(t, nil, host, port, path)
}

// askedFrom is asked by an address of this machine, nil for any.
func askedFrom(t *testing.T, from net.IP, host string, port uint16, path string) (code int, weight, answer string) {
	t.Helper()
	dialer := &net.Dialer{}
	if from != nil {
		dialer.LocalAddr = &net.TCPAddr{IP: from}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext}, Timeout: 20 * time.Second}
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
	port := testkit.FreePorts(t, 1)[0]
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
	port := testkit.FreePorts(t, 1)[0]
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
	taken, free := uint16(other.Addr().(*net.TCPAddr).Port), testkit.FreePorts(t, 1)[0]
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
	port := testkit.FreePorts(t, 1)[0]
	s.Serve(answers(port, 1))
	if _, weight, _ := asked(t, "127.0.0.2", port, "/"); weight != "1" {
		t.Error("not answered there")
	}
	if _, _, got := asked(t, "127.0.0.1", port, "/"); got != "refused" {
		t.Errorf("elsewhere one is told %s", got)
	}
}

// silent opens connections from an address that ask nothing, without end, and holds as
// many as it may; it returns once those are more than one client has.
func silent(t *testing.T, from net.IP, port uint16) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var dialling sync.WaitGroup
	t.Cleanup(func() { cancel(); dialling.Wait() })
	full := make(chan struct{})
	dialling.Go(func() {
		var conns []net.Conn
		defer func() {
			for _, c := range conns {
				_ = c.Close()
			}
		}()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
		for n := 0; ctx.Err() == nil; n++ {
			conn, err := d.DialContext(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				continue
			}
			if conns = append(conns, conn); len(conns) > 2*mostConns {
				_ = conns[0].Close()
				conns = conns[1:]
			}
			if n == mostConns {
				close(full)
			}
		}
	})
	<-full
}

// Who opens connections without end and asks nothing keeps no other client from an
// answer, there or at another port, nor keeps it waiting.
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	s, _ := running(t)
	ports := testkit.FreePorts(t, 2)
	want := answers(ports[0], 1)
	want[Place{ports[1], false}] = Answer{Local: 2}
	if failed := s.Serve(want); len(failed) > 0 {
		t.Fatal(failed)
	}
	silent(t, net.IPv4(127, 0, 0, 2), ports[0])
	began := time.Now()
	const rounds = 50
	for range rounds {
		for i, want := range []string{"1", "2"} {
			if _, weight, got := askedFrom(t, net.IPv4(127, 0, 0, 3), "127.0.0.1", ports[i], "/"); weight != want {
				t.Fatalf("told %q", got)
			}
		}
	}
	if took := time.Since(began) / (2 * rounds); took > 500*time.Millisecond {
		t.Errorf("an answer takes %s", took)
	}
}

// Who asks nothing is sent away.
func TestSilenceEnds(t *testing.T) {
	s, _ := running(t)
	port := testkit.FreePorts(t, 1)[0]
	s.Serve(answers(port, 1))
	conn, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("it stays: %v", err)
	}
}

// One client has never all connections, and ports and connections are at most half of
// the descriptors, however few there are.
func TestBounds(t *testing.T) {
	for files, want := range map[uint64]Bounds{
		1 << 20: {1000, 500, run.Limits{InAll: 512, OfPeer: 504}, 1 << 20}, unix.RLIM_INFINITY: {1000, 500, run.Limits{InAll: 512, OfPeer: 504}, unix.RLIM_INFINITY},
		1024: {128, 64, run.Limits{InAll: 256, OfPeer: 252}, 1024}, 64: {8, 4, run.Limits{InAll: 16, OfPeer: 15}, 64}, 0: {1, 1, run.Limits{InAll: 2, OfPeer: 1}, 0},
	} {
		got := boundsOf(files)
		if got != want || (got.Lowered() == "") != (want.ports == mostPorts) {
			t.Errorf("of %d descriptors: %+v, want %+v; %s", files, got, want, got.Lowered())
		}
		if all := uint64(2*got.ports + got.conns.InAll); files >= 64 && all > files/2 {
			t.Errorf("of %d descriptors %d are for load balancers", files, all)
		}
	}
}

// dying is a listener that fails for good.
type dying struct{ net.Listener }

func (dying) Accept() (net.Conn, error) { return nil, unix.EINVAL }

// A port whose listener fails is opened again, and answered.
func TestAListenerThatFails(t *testing.T) {
	s, _ := running(t)
	opened := 0
	s.listen = func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		if opened++; opened == 1 && err == nil {
			return dying{l}, nil
		}
		return l, err
	}
	port := testkit.FreePorts(t, 1)[0]
	s.Serve(answers(port, 1))
	deadline := time.Now().Add(30 * time.Second)
	for {
		if s.Again(); opened == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it is not opened again")
		}
		time.Sleep(time.Millisecond)
	}
	if failed := s.Again(); len(failed) > 0 {
		t.Error(failed)
	}
	if _, weight, got := asked(t, "127.0.0.1", port, "/"); weight != "1" {
		t.Errorf("told %s", got)
	}
}

// One load balancer may ask for everything in one moment: each question has its answer.
func TestManyQuestionsAtOnce(t *testing.T) {
	s, _ := running(t)
	ports, want := testkit.FreePorts(t, 500), map[Place]Answer{}
	for _, port := range ports {
		want[Place{Port: port}] = Answer{Local: 1}
	}
	if failed := s.Serve(want); len(failed) > 0 {
		t.Fatal(failed)
	}
	var all sync.WaitGroup
	begin := make(chan struct{})
	for _, port := range ports {
		all.Go(func() {
			<-begin
			if code, _, got := asked(t, "127.0.0.1", port, "/"); code != http.StatusOK {
				t.Errorf("told %d %s", code, got)
			}
		})
	}
	close(begin)
	all.Wait()
}

// After the end nobody listens, whatever is still to be served.
func TestTheEnd(t *testing.T) {
	s := New(func() bool { return true }, nil, boundsOf(1<<20), slog.New(slog.DiscardHandler))
	port := testkit.FreePorts(t, 1)[0]
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
