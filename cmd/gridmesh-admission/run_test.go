package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/admission"
	"github.com/gridmesh/gridmesh/admission/certs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/kube"
)

// patience is for what comes when it does.
const patience = time.Minute

// replicaAt is a replica at an API server, with a certificate of files or, without
// them, of its own.
func replicaAt(t *testing.T, url string, files run.CertificateFiles) (*replica, *config) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x}}], clusters: [{name: x, cluster: {server: %q}}]}`, url), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := kube.Connect(file, "test", kube.Rate{QPS: 100, Burst: 100})
	if err != nil {
		t.Fatal(err)
	}
	c := defaults()
	c.webhook, c.healthz, c.metrics, c.secure, c.hosts, c.tls = testkit.Free(t), testkit.Free(t), testkit.Free(t), testkit.Free(t), []string{"127.0.0.1"}, files
	registry := run.NewRegistry()
	r := &replica{config: c, client: client, log: slog.New(slog.DiscardHandler), metrics: admission.NewMetrics(registry)}
	if err := r.assemble(registry); err != nil {
		t.Fatal(err)
	}
	return r, c
}

// aPair writes a certificate with its key.
func aPair(t *testing.T) (files run.CertificateFiles, roots *x509.CertPool) {
	t.Helper()
	pair, err := certs.Issue([]string{"127.0.0.1"}, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files = run.CertificateFiles{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	if err := errors.Join(os.WriteFile(files.Cert, pair.Cert, 0o600), os.WriteFile(files.Key, pair.Key, 0o600)); err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(pair.CA)
	return files, roots
}

// With a certificate of files nothing is asked about Secrets and Leases; calls are
// answered before the shield is known, and the replica is not ready until then.
func TestWithCertificateOfFiles(t *testing.T) {
	allow, asked := make(chan struct{}), make(chan string, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r.URL.Path:
		default:
		}
		w.Header().Set("Content-Type", "application/json")
		select {
		case <-allow:
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		switch q := r.URL.Query(); {
		case q.Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		case q.Get("watch") != "":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case strings.HasSuffix(r.URL.Path, "/nodetables"):
			fmt.Fprint(w, `{"kind":"NodeTableList","apiVersion":"gridmesh.io/v1","metadata":{"resourceVersion":"1"},"items":[]}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		}
	}))
	defer server.Close()
	files, roots := aPair(t)
	r, c := replicaAt(t, server.URL, files)
	ctx, cancel := context.WithCancel(t.Context())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	do := func(method, url, body string) (int, string) {
		request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Error(err)
		}
		return answer.StatusCode, string(text)
	}
	r.group.AddTask("client", func(context.Context) error {
		defer cancel()
		for _, path := range []string{"node-taint", "endpoint", "endpointslice", "pod-status"} {
			code, text := do(http.MethodPost, "https://"+c.webhook+"/"+path, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"u"}}`)
			if code != http.StatusOK || !json.Valid([]byte(text)) || !strings.Contains(text, `"allowed":true`) || !strings.Contains(text, "v1beta1") {
				t.Errorf("%s answers %d: %s", path, code, text)
			}
		}
		if code, text := do(http.MethodGet, "http://"+c.healthz+"/readyz", ""); code != http.StatusServiceUnavailable || text != "not ok: shield\n" {
			t.Errorf("/readyz before the shield is known: %d %q", code, text)
		}
		if code, _ := do(http.MethodGet, "http://"+c.healthz+"/healthz", ""); code != http.StatusOK {
			t.Errorf("/healthz answers %d", code)
		}
		close(allow)
		for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			if code, text := do(http.MethodGet, "http://"+c.healthz+"/readyz", ""); code == http.StatusOK {
				break
			} else if time.Since(begin) > patience {
				t.Errorf("/readyz: %d %q", code, text)
				break
			}
		}
		if code, text := do(http.MethodGet, "http://"+c.metrics+"/metrics", ""); code != http.StatusOK || !strings.Contains(text, "\ngridmesh_admission_certificate_days_left 0.04") || !strings.Contains(text, "\ngridmesh_admission_shielded_nodes 0\n") {
			t.Errorf("/metrics answers %d: %s", code, text)
		}
		if code, _ := do(http.MethodGet, "https://"+c.secure+"/metrics", ""); code != http.StatusUnauthorized {
			t.Errorf("/metrics without a token answers %d", code)
		}
		return nil
	})
	if err := r.group.Run(ctx); err != nil {
		t.Error(err)
	}
	close(asked)
	for path := range asked {
		if !strings.HasPrefix(path, "/apis/gridmesh.io/v1/namespaces/gridmesh/nodetables") {
			t.Errorf("it asked for %s", path)
		}
	}
}

// Where the API server forbids everything, the replica goes on: its calls are answered
// or refused by TLS, and it is not ready.
func TestWithoutRights(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": %q}`, r.URL.Path+" is forbidden")
	}))
	defer server.Close()
	r, c := replicaAt(t, server.URL, run.CertificateFiles{})
	ctx, cancel := context.WithCancel(t.Context())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // it has none
	r.group.AddTask("client", func(ctx context.Context) error {
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.healthz+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "not ok: certificate, shield\n" {
			t.Errorf("/readyz answers %q, %v", text, err)
		}
		call, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+c.webhook+"/node-taint", http.NoBody)
		if err != nil {
			return err
		}
		if answer, err := client.Do(call); err == nil {
			answer.Body.Close()
			t.Errorf("it shows a certificate: %s", answer.Status)
		}
		return nil
	})
	if err := r.group.Run(ctx); err != nil {
		t.Error(err)
	}
}
