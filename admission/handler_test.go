package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/gridmesh/gridmesh/admission/mutate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for what comes when it does.
const patience = 20 * time.Second

// aReview is what an API server sends.
func aReview(version, more string) string {
	return fmt.Sprintf(`{"apiVersion":"admission.k8s.io/%s","kind":"AdmissionReview","request":{"uid":"u-1","operation":"UPDATE","object":{"metadata":{"name":"n"}}%s}}`, version, more)
}

// asked is a handler with one path, and what it logs.
type asked struct {
	*Handler
	t        *testing.T
	mux      http.Handler
	registry *prometheus.Registry
	log      *lines
}

// lines are what was logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func ask(t *testing.T, within time.Duration, decide Decide) *asked {
	log, registry := &lines{}, prometheus.NewRegistry()
	h := newHandler(func() mutate.Shield { return mutate.Shield{"n": {}} }, NewMetrics(registry), slog.New(slog.NewTextHandler(log, nil)), within)
	return &asked{h, t, h.mux(map[string]Decide{"x": decide}), registry, log}
}

// post calls, and returns what came.
func (a *asked) post(t *testing.T, body io.Reader) (code int, out admissionv1.AdmissionReview) {
	t.Helper()
	w := httptest.NewRecorder()
	a.mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/x?timeout=1s", body))
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatalf("%v: %q", err, w.Body)
	}
	return w.Code, out
}

func (a *asked) counted(why mutate.Reason) float64 {
	return value(a.t, a.registry, fmt.Sprintf(`gridmesh_admission_reviews_total{result=%q,review="x"}`, why))
}

// Whatever comes, and whatever goes wrong, the write is allowed; what went wrong is
// counted and said.
func TestEveryWriteIsAllowed(t *testing.T) {
	fine := func(in *admissionv1.AdmissionRequest, shield mutate.Shield) ([]byte, mutate.Reason, error) {
		if _, ok := shield["n"]; !ok || in.Operation != admissionv1.Update {
			t.Errorf("asked about %v with %v", in, shield)
		}
		return []byte(`[]`), mutate.Shielded, nil
	}
	nothing := func(*admissionv1.AdmissionRequest, mutate.Shield) ([]byte, mutate.Reason, error) {
		return nil, mutate.Expired, nil
	}
	wrong := func(*admissionv1.AdmissionRequest, mutate.Shield) ([]byte, mutate.Reason, error) {
		return []byte("x"), "", errors.New("object: it is no Node")
	}
	panics := func(*admissionv1.AdmissionRequest, mutate.Shield) ([]byte, mutate.Reason, error) { panic("oh") }
	for what, c := range map[string]struct {
		decide             Decide
		body               string
		version, uid, says string
		why                mutate.Reason
	}{
		"v1":                     {fine, aReview("v1", ""), "v1", "u-1", "", mutate.Shielded},
		"v1beta1":                {fine, aReview("v1beta1", ""), "v1beta1", "u-1", "", mutate.Shielded},
		"a dry run":              {fine, aReview("v1", `,"dryRun":true`), "v1", "u-1", "", mutate.Shielded},
		"nothing to keep":        {nothing, aReview("v1", ""), "v1", "u-1", "", mutate.Expired},
		"an object that is none": {wrong, aReview("v1", ""), "v1", "u-1", "it is no Node", unreadable},
		"a panic":                {panics, aReview("v1beta1", ""), "v1beta1", "u-1", "panic: oh", failed},
		"another version":        {fine, aReview("v7", ""), "v1", "u-1", "it is no AdmissionReview", unreadable},
		"another kind":           {fine, strings.Replace(aReview("v1", ""), "AdmissionReview", "Pod", 1), "v1", "u-1", "it is no AdmissionReview", unreadable},
		"a field of another type": {
			fine, aReview("v1beta1", `,"operation":7`), "v1beta1", "u-1", "read the review", unreadable,
		},
		"no request":   {fine, `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}`, "v1beta1", "", "it has no request", unreadable},
		"no JSON":      {fine, "hello", "v1", "", "read the review", unreadable},
		"nothing":      {fine, "", "v1", "", "read the review", unreadable},
		"null":         {fine, "null", "v1", "", "it has no request", unreadable},
		"half a call":  {fine, aReview("v1", "")[:90], "v1", "", "read the review", unreadable},
		"nested":       {fine, strings.Repeat("[", 100000), "v1", "", "read the review", unreadable},
		"one too long": {fine, aReview("v1", `,"x":"`+strings.Repeat("x", maxReview)+`"`), "v1", "", "it has more than", unreadable},
	} {
		t.Run(what, func(t *testing.T) {
			a := ask(t, patience, c.decide)
			code, out := a.post(t, strings.NewReader(c.body))
			if code != http.StatusOK || out.Kind != "AdmissionReview" || out.APIVersion != "admission.k8s.io/"+c.version || out.Response == nil || !out.Response.Allowed || string(out.Response.UID) != c.uid {
				t.Fatalf("%d: %+v, %+v", code, out.TypeMeta, out.Response)
			}
			if patched := out.Response.PatchType != nil && *out.Response.PatchType == admissionv1.PatchTypeJSONPatch && len(out.Response.Patch) > 0; patched != (c.why == mutate.Shielded) {
				t.Errorf("patched: %v, by %s", patched, out.Response.Patch)
			}
			if n := a.counted(c.why); n != 1 {
				t.Errorf("%v are counted as %s", n, c.why)
			}
			if said := a.log.String(); !strings.Contains(said, c.says) || (c.says == "") != (said == "") {
				t.Errorf("said is %q, want %q", said, c.says)
			}
		})
	}
}

// What goes on and on is said now and then, and counted each time.
func TestFaultsAreSaidNowAndThen(t *testing.T) {
	a := ask(t, patience, nil)
	for range 100 {
		a.post(t, strings.NewReader("?"))
	}
	if n := strings.Count(a.log.String(), "\n"); n < 1 || n > 10 || a.counted(unreadable) != 100 {
		t.Errorf("%d lines, %v counted", n, a.counted(unreadable))
	}
}

// Who decides too slowly is not waited for, and so is nobody while too many are decided.
// Those who still work end by themselves.
func TestSlowDecisions(t *testing.T) {
	const within = 50 * time.Millisecond
	release := make(chan struct{})
	var working sync.WaitGroup
	a := ask(t, within, func(*admissionv1.AdmissionRequest, mutate.Shield) ([]byte, mutate.Reason, error) {
		defer working.Done()
		<-release
		return []byte("[]"), mutate.Shielded, nil
	})
	working.Add(ofPeer)
	var calls sync.WaitGroup
	for range 3 * atOnce {
		calls.Go(func() {
			begin := time.Now()
			_, out := a.post(t, strings.NewReader(aReview("v1", "")))
			if out.Response == nil || !out.Response.Allowed || out.Response.Patch != nil || time.Since(begin) > patience {
				t.Errorf("after %s: %+v", time.Since(begin), out.Response)
			}
		})
	}
	calls.Wait()
	if n := a.counted(late); n != 3*atOnce {
		t.Errorf("%v are late", n)
	}
	close(release)
	working.Wait()
	working.Add(1)
	for begin := time.Now(); len(a.deciding.all) > 0 && time.Since(begin) < patience; time.Sleep(time.Millisecond) {
	}
	a.within = patience
	if _, out := a.post(t, strings.NewReader(aReview("v1", ""))); out.Response == nil || out.Response.Patch == nil {
		t.Errorf("afterwards: %+v", out.Response)
	}
}

// endless is a body that never ends, until its time is over.
type endless struct{ ctx context.Context }

func (e endless) Read(p []byte) (int, error) {
	if e.ctx.Err() != nil {
		return 0, e.ctx.Err()
	}
	return copy(p, " "), nil
}

// What never ends is not read for ever.
func TestEndlessBody(t *testing.T) {
	a := ask(t, patience, nil)
	if _, out := a.post(t, endless{t.Context()}); out.Response == nil || !out.Response.Allowed || a.counted(unreadable) != 1 {
		t.Errorf("%+v", out.Response)
	}
}

// Only what is asked by POST at a known path is a call.
func TestOtherRequests(t *testing.T) {
	a := ask(t, patience, nil)
	for what, want := range map[string]int{"GET /x": http.StatusMethodNotAllowed, "POST /y": http.StatusNotFound, "GET /": http.StatusNotFound} {
		method, path, _ := strings.Cut(what, " ")
		w := httptest.NewRecorder()
		a.mux.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d", what, w.Code)
		}
	}
}

// Whatever bytes come, the answer is one that an API server reads, and allows.
func FuzzReview(f *testing.F) {
	f.Add([]byte(aReview("v1", "")))
	f.Add([]byte(aReview("v1beta1", `,"oldObject":null,"dryRun":true`)))
	f.Add([]byte(`{"request":{"uid":7}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		in, err := decode(body)
		if in == nil || in.Request == nil {
			t.Fatal("nothing to answer")
		}
		text, wrong := allowed(in, nil)
		var out admissionv1.AdmissionReview
		if wrong != nil || json.Unmarshal(text, &out) != nil || out.Response == nil || !out.Response.Allowed || out.Kind != reviewKind || out.APIVersion != reviewV1 && out.APIVersion != reviewV1beta1 {
			t.Errorf("%s (%v, %v)", text, err, wrong)
		}
		if err == nil && out.APIVersion != in.APIVersion {
			t.Errorf("asked in %s, answered in %s", in.APIVersion, out.APIVersion)
		}
	})
}
