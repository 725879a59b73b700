package admission

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/gridmesh/gridmesh/admission/certs"
	"github.com/gridmesh/gridmesh/admission/mutate"
)

func patched(*admissionv1.AdmissionRequest, mutate.Shield) ([]byte, mutate.Reason, error) {
	return []byte(`[]`), mutate.Shielded, nil
}

// from calls as who is at an address, and returns whether the write was given back.
func (a *asked) from(addr string, body io.Reader) bool {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/x?timeout=1s", body)
	r.RemoteAddr = addr
	a.mux.ServeHTTP(w, r)
	return strings.Contains(w.Body.String(), `"patch"`)
}

// peers are how many have a share.
func (r *rooms) peers() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.of)
}

// hang is a body of which a part comes; the rest when it is released.
type hang struct {
	comes io.Reader
	begun func()
	rest  <-chan struct{}
}

func (h *hang) Read(p []byte) (int, error) {
	if n, err := h.comes.Read(p); err == nil {
		return n, nil
	}
	h.begun()
	<-h.rest
	return 0, io.ErrUnexpectedEOF
}

// hold has calls hang at once, until the function that it returns is called.
func (a *asked) hold(calls int, addr, comes string) (release func()) {
	rest := make(chan struct{})
	var begun, ended sync.WaitGroup
	begun.Add(calls)
	for range calls {
		ended.Go(func() {
			once := sync.OnceFunc(begun.Done)
			defer once() // also of one that is not read
			a.from(addr, &hang{strings.NewReader(comes), once, rest})
		})
	}
	begun.Wait()
	return func() { close(rest); ended.Wait() }
}

const (
	apiServer = "10.0.0.1:7000"
	attacker  = "10.9.9.9:7000"
)

// Who sends no body, or half of one, keeps nobody waiting, whoever he is.
func TestBodiesThatDoNotCome(t *testing.T) {
	for _, comes := range []string{"", aReview("v1", "")[:90], strings.Repeat(" ", small)} {
		a := ask(t, patience, patched)
		release := a.hold(10*atOnce, apiServer, comes)
		if !a.from(apiServer, strings.NewReader(aReview("v1", ""))) {
			t.Errorf("behind %d bodies of %d bytes a call is not decided", 10*atOnce, len(comes))
		}
		release()
	}
}

// Of large bodies there are few at once, of each peer a share; what is small does not wait for them.
func TestLargeBodiesThatDoNotCome(t *testing.T) {
	a := ask(t, patience, patched)
	begin, large := strings.Repeat(" ", small+1), aReview("v1", `,"x":"`+strings.Repeat("x", maxReview/2)+`"`)
	release := a.hold(ofPeer, attacker, begin)
	if !a.from(apiServer, strings.NewReader(large)) || !a.from(attacker, strings.NewReader(aReview("v1", ""))) {
		t.Error("it waits for another one's, or a small one for large ones")
	}
	a.within = time.Millisecond
	if a.from(attacker, strings.NewReader(large)) || a.counted(late) != 1 {
		t.Errorf("his share is larger, or %v are late", a.counted(late))
	}
	release()
	a.within = patience
	if !a.from(attacker, strings.NewReader(large)) {
		t.Error("his share is not there again")
	}
	for _, r := range []*rooms{a.large, a.deciding} {
		for begin := time.Now(); r.peers() > 0; time.Sleep(time.Millisecond) { // one leaves behind its answer
			if time.Since(begin) > patience {
				t.Fatalf("left are shares of %d", r.peers())
			}
		}
	}
}

// Who has much decided at once has a share of that, and what others ask is decided beside it.
func TestDecisionsAreShared(t *testing.T) {
	release := make(chan struct{})
	var begun sync.WaitGroup
	begun.Add(ofPeer)
	var count atomic.Int64
	a := ask(t, patience, func(in *admissionv1.AdmissionRequest, _ mutate.Shield) ([]byte, mutate.Reason, error) {
		if in.UID == "u-1" {
			if n := count.Add(1); n <= ofPeer {
				begun.Done()
			}
			<-release
		}
		return patched(nil, nil)
	})
	var all sync.WaitGroup
	for range 3 * atOnce {
		all.Go(func() {
			if !a.from(attacker, strings.NewReader(aReview("v1", ""))) {
				t.Error("it is not decided")
			}
		})
	}
	begun.Wait()
	if n := count.Load(); n != ofPeer {
		t.Errorf("%d are decided at once", n)
	}
	if !a.from(apiServer, strings.NewReader(strings.Replace(aReview("v1", ""), "u-1", "u-2", 1))) {
		t.Error("another one's is not decided")
	}
	close(release)
	all.Wait()
}

func TestPeers(t *testing.T) {
	for addr, want := range map[string]string{
		"10.0.0.1:1": "10.0.0.1", "[::ffff:10.0.0.1]:1": "10.0.0.1", "[2001:db8::1:2:3:4]:1": "2001:db8::/64", "[fe80::1%eth0]:1": "fe80::/64", "@": "",
	} {
		r := httptest.NewRequest(http.MethodPost, "/x", nil)
		r.RemoteAddr = addr
		if got := peerOf(r); got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
}

// A call has a connection: HTTP/2, of which each may have hundreds of calls, is not spoken,
// whoever has made the certificate.
func TestOneCallAConnection(t *testing.T) {
	pair, err := certs.Issue([]string{"127.0.0.1"}, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	own, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pair.CA)
	both := &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	for name, cfg := range map[string]*tls.Config{
		"its own": both,
		"of files": {
			MinVersion: tls.VersionTLS12, NextProtos: both.NextProtos,
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return both, nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := slog.New(slog.DiscardHandler)
			l, err := Listen("127.0.0.1:0", log)
			if err != nil {
				t.Fatal(err)
			}
			a := ask(t, patience, patched)
			ctx, cancel := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- Serve(cfg, a.mux, log)(ctx, l) }()
			transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}
			resp, err := (&http.Client{Transport: transport}).Post("https://"+l.Addr().String()+"/x", "application/json", strings.NewReader(aReview("v1", "")))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			if resp.Body.Close(); err != nil || resp.ProtoMajor != 1 || !strings.Contains(string(text), `"patch"`) {
				t.Errorf("%s: %s, %v", resp.Proto, text, err)
			}
			if len(both.NextProtos) != 2 {
				t.Error("the configuration is another one's, too")
			}
			transport.CloseIdleConnections()
			cancel()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}

// A body of which each few characters would take a thousand bytes of memory is not decoded; the
// largest that an API server sends is.
func TestBodiesThatGrow(t *testing.T) {
	for what, more := range map[string]string{
		"containers":      `"spec":{"containers":[` + strings.TrimSuffix(strings.Repeat("{},", 800_000), ",") + `]}`,
		"a small body":    `"spec":{"containers":[` + strings.TrimSuffix(strings.Repeat("{},", 40_000), ",") + `]}`,
		"with a field":    `"status":{"containerStatuses":[` + strings.TrimSuffix(strings.Repeat(`{"a":1},`, 300_000), ",") + `]}`,
		"labels":          `"metadata":{"labels":{` + labels(250_000) + `}}`,
		"texts in a list": `"metadata":{"finalizers":[` + strings.TrimSuffix(strings.Repeat(`"",`, 800_000), ",") + `]}`,
	} {
		body := aReview("v1", `,"userInfo":{"username":"system:serviceaccount:kube-system:node-controller"},"kind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},"subResource":"status","oldObject":{`+more+`}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/pod-status?timeout=1s", strings.NewReader(body))
		NewHandler(func() mutate.Shield { return mutate.Shield{} }, NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler)).ServeHTTP(w, r)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 6*uint64(len(body))+1<<20 {
			t.Errorf("%s: %d bytes took %d", what, len(body), took)
		}
		if !strings.Contains(w.Body.String(), `"allowed":true`) {
			t.Errorf("%s: %s", what, w.Body.String())
		}
	}
	if dense([]byte(largestReview())) {
		t.Errorf("the largest review, of %d bytes, is refused", len(largestReview()))
	}
}

// What is just not dense takes memory all the same, as a container that is null, which is four
// characters: of such bodies so few are decided at once that all have room in what deploy/ allows.
func TestBodiesAtTheBound(t *testing.T) {
	const limit = 200 << 20 // of 256 MiB
	for _, nulls := range []int{fewValues, 3900, 18_300} {
		body := aReview("v1", `,"userInfo":{"username":"system:serviceaccount:kube-system:node-controller"},"kind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},"subResource":"status","oldObject":{"spec":{"containers":[`+
			strings.Repeat("null,", nulls)+`null],"x":"`+strings.Repeat("x", max(0, 8*(nulls-fewValues)-5*nulls))+`"}}`)
		if dense([]byte(body)) || len(body) > small {
			t.Fatalf("%d nulls, %d bytes: it is not at the bound", nulls, len(body))
		}
		h := newHandler(func() mutate.Shield { return mutate.Shield{} }, NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler), patience)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/pod-status", strings.NewReader(body))
		h.mux(paths).ServeHTTP(w, r)
		runtime.ReadMemStats(&after)
		took, atOnce := after.TotalAlloc-before.TotalAlloc, uint64(cap(h.rooms([]byte(body)).all))
		if took*atOnce > limit {
			t.Errorf("%d nulls in %d bytes take %d, and %d are decided at once", nulls, len(body), took, atOnce)
		}
	}
}

func labels(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"%x":"",`, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// largestReview is of an EndpointSlice with as many endpoints as there may be, each with all fields.
func largestReview() string {
	endpoint := `{"addresses":["10.244.100.100"],"conditions":{"ready":true,"serving":true,"terminating":false},"targetRef":{"kind":"Pod","namespace":"default","name":"web-6d4cf56db6-abcde",` +
		`"uid":"8f3e0b1c-5a55-4f6e-9f0e-4a3f0f8f5a11"},"nodeName":"node-0001","zone":"zone-a","hints":{"forZones":[{"name":"zone-a"}],"forNodes":[{"name":"node-0001"}]}}`
	slice := `{"metadata":{"name":"web","managedFields":[` + strings.Repeat(`{"f:a":{"f:b":{},"f:c":{}}},`, 300) + `{}]},"endpoints":[` + strings.TrimSuffix(strings.Repeat(endpoint+",", 1000), ",") + `]}`
	return aReview("v1", `,"oldObject":`+slice+`,"newObject":`+slice)
}
