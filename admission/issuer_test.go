package admission

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/gridmesh/gridmesh/admission/certs"
	"github.com/gridmesh/gridmesh/admission/mutate"
	"github.com/gridmesh/gridmesh/internal/run"
)

// applied is what deploy/ has: an empty Secret, and a configuration without a bundle.
func applied() *store {
	s := newStore()
	s.put("Secret", map[string]any{"metadata": map[string]any{"name": "gridmesh-admission-certs"}})
	hook := func(name string) any {
		return map[string]any{"name": name, "timeoutSeconds": 1, "clientConfig": map[string]any{"service": map[string]any{"name": "gridmesh-admission"}}}
	}
	s.put(configurationKind, map[string]any{"metadata": map[string]any{"name": "gridmesh-admission"}, "webhooks": []any{hook("a"), hook("b")}})
	return s
}

// believes are the authorities of each webhook of the configuration.
func (s *store) believes() [][]byte { return bundles(s.Get(configurationKind, "", "")) }

// keeps runs an issuer until the test ends.
func keeps(t *testing.T, s *store, p certs.Policy, log io.Writer) (r *prometheus.Registry, stop func()) {
	t.Helper()
	r = prometheus.NewRegistry()
	m := NewMetrics(r)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := NewIssuer(s, "gridmesh", p, m, slog.New(slog.NewTextHandler(log, nil))).Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return r, func() { cancel(); wg.Wait() }
}

// stretch is a ninetieth of a lifetime: with a day each a test would look a million times.
const stretch = time.Minute

// From an empty Secret to a certificate that is believed, with two writes and then none;
// a rotation, with an overlap; nothing else of the configuration changes.
func TestIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := applied(), &lines{}
		_, stop := keeps(t, s, certs.PolicyOf([]string{"a"}, 90*stretch), log)
		defer func() { stop() }()
		time.Sleep(time.Minute)
		if !slices.Equal(s.written(), []string{"Secret", configurationKind}) {
			t.Fatalf("written were %q", s.written())
		}
		first := certs.Data(s.Get("Secret", "", ""))
		for i, bundle := range s.believes() {
			if string(bundle) != string(first[certs.KeyCA]) {
				t.Errorf("webhook %d believes\n%s", i, bundle)
			}
		}
		hook := s.Get(configurationKind, "", "")["webhooks"].([]any)[1].(map[string]any)
		if hook["name"] != "b" || fmt.Sprint(hook["timeoutSeconds"]) != "1" || hook["clientConfig"].(map[string]any)["service"] == nil {
			t.Errorf("the configuration has become %v", hook)
		}
		time.Sleep(58 * stretch)
		if n := len(s.written()); n != 2 {
			t.Errorf("nothing was due, and there are %d writes", n)
		}
		time.Sleep(90 * time.Second)
		if n := strings.Count(string(s.believes()[0]), "BEGIN"); n != 2 || string(certs.Data(s.Get("Secret", "", ""))[certs.KeyCert]) != string(first[certs.KeyCert]) {
			t.Errorf("%d authorities overlap", n)
		}
		time.Sleep(5 * stretch)
		second := certs.Data(s.Get("Secret", "", ""))
		if string(second[certs.KeyCert]) == string(first[certs.KeyCert]) || second[certs.KeyNextCert] != nil || second[certs.KeyNextKey] != nil {
			t.Error("the next one does not serve, or is still the next")
		}
		if n := strings.Count(string(s.believes()[0]), "BEGIN"); n != 2 {
			t.Errorf("the one before is not believed any more: %d", n)
		}
		time.Sleep(31 * stretch)
		if n := strings.Count(string(s.believes()[0]), "BEGIN"); n != 1 {
			t.Errorf("what has ended is believed: %d", n)
		}
		if said := log.String(); strings.Contains(said, "PRIVATE") || strings.Contains(said, base64.StdEncoding.EncodeToString(second[certs.KeyKey])[:40]) {
			t.Errorf("a key was logged:\n%s", said)
		}
	})
}

// What is missing and what fails is said and counted, and taken up when it is there.
func TestIssuerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := newStore(), &lines{}
		registry, stop := keeps(t, s, certs.PolicyOf([]string{"a"}, 900*stretch), log)
		defer func() { stop() }()
		time.Sleep(time.Minute)
		if said := log.String(); !strings.Contains(said, "there is no Secret gridmesh-admission-certs") || value(t, registry, "gridmesh_admission_certificate_failures_total") == 0 {
			t.Errorf("without a Secret: %s", said)
		}
		whole := applied()
		s.put("Secret", whole.objects["Secret"])
		time.Sleep(time.Minute)
		if said := log.String(); !strings.Contains(said, "there is no MutatingWebhookConfiguration gridmesh-admission") || len(s.written()) != 1 {
			t.Errorf("without a configuration: %d writes, %s", len(s.written()), said)
		}
		s.away(errors.New("it is dark"))
		s.put(configurationKind, whole.objects[configurationKind])
		time.Sleep(time.Hour) // lines like this one are said seldom by now
		if len(s.written()) != 1 || !strings.Contains(log.String(), "publish: it is dark") {
			t.Errorf("%d writes, %s", len(s.written()), log)
		}
		s.away(nil)
		time.Sleep(lookSeldom)
		synctest.Wait()
		if len(s.written()) != 2 || len(s.believes()[0]) == 0 {
			t.Errorf("%d writes", len(s.written()))
		}
	})
}

// Two that both believe to lead do no harm: what one has not read it does not overwrite.
func TestTwoIssuers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := applied()
		p := certs.PolicyOf([]string{"a"}, 90*stretch)
		_, stop := keeps(t, s, p, io.Discard)
		defer func() { stop() }()
		_, stopSecond := keeps(t, s, p, io.Discard)
		defer func() { stopSecond() }()
		time.Sleep(61 * stretch)
		if n := strings.Count(string(s.believes()[0]), "BEGIN"); n != 2 || len(s.written()) > 7 {
			t.Errorf("%d authorities, writes: %q", n, s.written())
		}
	})
}

// A certificate that cannot be used changes nothing, and is said once.
func TestServingKeepsTheLastGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := newStore(), &lines{}
		shown := NewServing(s, "gridmesh", slog.New(slog.NewTextHandler(log, nil)))
		hello := &tls.ClientHelloInfo{}
		if _, err := shown.TLS().GetCertificate(hello); err == nil || shown.Err() == nil || !shown.Expires().IsZero() {
			t.Error("a certificate is there before it was made")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- shown.Run(ctx) }()
		pair, err := certs.Issue([]string{"a"}, 24*time.Hour, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		secret := func(cert, key []byte) map[string]any {
			return map[string]any{"metadata": map[string]any{}, "data": map[string]any{
				certs.KeyCert: base64.StdEncoding.EncodeToString(cert), certs.KeyKey: base64.StdEncoding.EncodeToString(key), certs.KeyNextKey: "c2VjcmV0",
			}}
		}
		s.put("Secret", secret(pair.Cert, pair.Key))
		synctest.Wait()
		if err := shown.Err(); err != nil || daysLeft(shown.Expires(), time.Now()) < 0.9 {
			t.Errorf("%v, %v days are left", err, daysLeft(shown.Expires(), time.Now()))
		}
		for range 3 {
			s.put("Secret", secret(pair.Cert, []byte("TOP SECRET")))
			synctest.Wait()
		}
		if c, err := shown.TLS().GetCertificate(hello); err != nil || c.Leaf.NotAfter != shown.Expires() || shown.Err() != nil {
			t.Errorf("the last good one is gone: %v", err)
		}
		if said := log.String(); strings.Count(said, "keeping the last good certificate") != 1 || strings.Contains(said, "TOP") {
			t.Errorf("said is\n%s", said)
		}
		time.Sleep(24*time.Hour + time.Second)
		if err := shown.Err(); !errors.Is(err, errExpired) {
			t.Errorf("it has expired: %v", err)
		}
		obj := secret(pair.Cert, pair.Key)
		if PruneCerts(obj); len(obj["data"].(map[string]any)) != 2 {
			t.Errorf("what others need is kept: %v", obj["data"])
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Certificates that are replaced each second, two replicas, and callers that believe what the
// configuration had, half a second late: over rotations no call fails, on connections kept or new.
func TestNoCallFailsWhileCertificatesRotate(t *testing.T) {
	s := applied()
	p := certs.Policy{Hosts: []string{"127.0.0.1"}, Lifetime: time.Hour, Renew: time.Hour - time.Second, Settle: 3 * time.Second}
	registry, stop := keeps(t, s, p, io.Discard)
	defer stop()
	steps := func(of string) float64 {
		return value(t, registry, fmt.Sprintf("gridmesh_admission_certificate_steps_total{step=%q}", of))
	}
	var g run.Group
	log := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(t.Context())
	unchanged := map[string]Decide{"x": func(*admissionv1.AdmissionRequest, mutate.Shield) ([]byte, mutate.Reason, error) {
		return nil, mutate.Unshielded, nil
	}}
	var addresses []string
	for i := range 2 {
		mirror := &store{wake: make(chan struct{}, 1), objects: map[string]map[string]any{}}
		shown := NewServing(mirror, "gridmesh", log)
		l, err := Listen("127.0.0.1:0", log)
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, l.Addr().String())
		h := newHandler(func() mutate.Shield { return nil }, NewMetrics(prometheus.NewRegistry()), log, answerWithin)
		g.AddListener(fmt.Sprint("replica ", i), l, Serve(shown.TLS(), h.mux(unchanged), log))
		g.Add("shown", shown.Run)
		g.Add("lag", func(ctx context.Context) error { // the second hears of all somewhat later
			for run.Pause(ctx, time.Duration(i+1)*50*time.Millisecond) {
				if secret := s.Get("Secret", "", ""); secret != nil {
					mirror.put("Secret", secret)
				}
			}
			return nil
		})
	}
	var calls, failures atomic.Int64
	call := func(ctx context.Context, client *http.Client, address string) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+"/x", strings.NewReader(aReview("v1", "")))
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && !strings.Contains(string(text), `"allowed":true`) {
			err = fmt.Errorf("%s: %s", answer.Status, text)
		}
		return err
	}
	for i := range 4 {
		g.Add("caller", func(ctx context.Context) error {
			var client *http.Client
			bundle := ""
			begun, asked := false, time.Time{}
			for ctx.Err() == nil {
				now := bundle
				if time.Since(asked) > 500*time.Millisecond { // API servers lag, too
					now, asked = string(s.believes()[0]), time.Now()
				}
				if client == nil || now != bundle { // as API servers do: another client
					roots := x509.NewCertPool()
					roots.AppendCertsFromPEM([]byte(now))
					bundle = now
					if client != nil {
						client.CloseIdleConnections()
					}
					client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: i%2 == 0}}
				}
				err := call(ctx, client, addresses[i/2])
				if begun = begun || err == nil; begun && ctx.Err() == nil {
					calls.Add(1)
					if err != nil {
						failures.Add(1)
						t.Log(err)
					}
				}
			}
			client.CloseIdleConnections()
			return nil
		})
	}
	g.AddTask("end", func(ctx context.Context) error {
		defer cancel()
		for begin := time.Now(); steps("promote") < 3; run.Pause(ctx, 10*time.Millisecond) {
			if time.Since(begin) > 6*patience {
				return errors.New("there were no three rotations")
			}
		}
		return nil
	})
	if err := g.Run(ctx); err != nil {
		t.Error(err)
	}
	if calls.Load() < 100 || failures.Load() > 0 {
		t.Errorf("of %d calls %d failed", calls.Load(), failures.Load())
	}
	if n := steps("begin"); n != 1 {
		t.Errorf("it began %v times", n)
	}
}
