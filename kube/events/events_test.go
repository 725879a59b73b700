package events

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/kube/internal/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const collection = "/api/v1/namespaces/default/events"

var silent = slog.New(slog.DiscardHandler)

// texts are the Events of the server, as "object reason message xN".
func texts(s *apitest.Server) []string {
	var list []string
	for _, ev := range s.Under("/api/v1/events") {
		about := ev["involvedObject"].(apitest.Object)
		list = append(list, fmt.Sprintf("%v %v %v x%v", about["name"], ev["reason"], ev["message"], ev["count"]))
	}
	return list
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("not within 20 s: " + what)
		}
	}
}

// run runs until the test ends.
func run(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestNodeWritesAboutItself(t *testing.T) {
	s := apitest.New(t)
	n := ForNode(s.Client(t), "edge-7", silent)
	run(t, n.Run)
	n.Warn("Conflict", "kube-proxy is here")
	eventually(t, "the Event is there", func() bool { return len(s.Under(collection)) == 1 })
	ev := s.Under(collection)[0]
	for field, want := range map[string]any{
		"type": "Warning", "reason": "Conflict", "message": "kube-proxy is here", "count": 1.,
		"reportingComponent": "gridmesh.io/agent", "reportingInstance": "edge-7",
	} {
		if ev[field] != want {
			t.Errorf("%s is %v, want %v", field, ev[field], want)
		}
	}
	if about := ev["involvedObject"].(apitest.Object); about["kind"] != "Node" || about["name"] != "edge-7" || about["uid"] != "edge-7" {
		t.Errorf("it is about %v", about)
	}
	if from := ev["source"].(apitest.Object); from["component"] != "gridmesh-agent" || from["host"] != "edge-7" {
		t.Errorf("it is from %v", from)
	}
}

func TestNodeWritesAtMostTenAnHour(t *testing.T) {
	s := apitest.New(t)
	n := ForNode(s.Client(t), "edge-7", silent)
	for i := range 3 * nodePerHour {
		n.WarnNow(t.Context(), "Conflict", fmt.Sprint("number ", i))
	}
	if got := len(s.Under(collection)); got != nodePerHour {
		t.Errorf("%d Events were written, want %d", got, nodePerHour)
	}
}

// Events of a clock that was ahead, and is set right, keep no later one out.
func TestAClockThatIsSetBackSilencesNobody(t *testing.T) {
	at := func(when time.Time, name string) *corev1.Event {
		ev := &corev1.Event{LastTimestamp: metav1.NewTime(when)}
		ev.Name = name
		return ev
	}
	l, now := &nodeLimit{}, time.Now()
	for i := range nodePerHour {
		l.wrote(at(now.Add(48*time.Hour), fmt.Sprint(i)))
	}
	if !l.accepts(at(now, "after")) {
		t.Error("nothing is written for as long as the clock was ahead")
	}
	l.wrote(at(now.Truncate(time.Second), "after"))
	if l.accepts(at(now, "after")) {
		t.Error("it is repeated at once")
	}
}

// What comes and goes all the time takes none of the others' room.
func TestWhatIsRepeatedLeavesRoom(t *testing.T) {
	s := apitest.New(t)
	n := ForNode(s.Client(t), "edge-7", silent)
	for range 3 * nodePerHour {
		n.WarnNow(t.Context(), "Conflict", "comes and goes")
	}
	n.WarnNow(t.Context(), "Conflict", "other")
	if got := strings.Join(texts(s), ", "); !strings.Contains(got, "other x1") || !strings.Contains(got, "comes and goes x1") {
		t.Errorf("written is %s", got)
	}
}

// The same Event is known again by its name, also after a restart; it is
// counted once more when it is older than half an hour.
func TestNodeDoesNotRepeatItself(t *testing.T) {
	s := apitest.New(t)
	start := func() *Node { return ForNode(s.Client(t), "edge-7", silent) }
	start().WarnNow(t.Context(), "Conflict", "same")
	start().WarnNow(t.Context(), "Conflict", "same")
	start().WarnNow(t.Context(), "Conflict", "other")
	if got := strings.Join(texts(s), ", "); strings.Count(got, "x1") != 2 || strings.Contains(got, "x2") {
		t.Errorf("after a restart: %s", got)
	}
	for _, ev := range s.Under(collection) {
		s.Put(t, fmt.Sprintf(`{apiVersion: v1, kind: Event, metadata: {namespace: default, name: %s}, involvedObject: {name: edge-7}, reason: Conflict, message: %s, count: 3, lastTimestamp: %q}`,
			ev["metadata"].(apitest.Object)["name"], ev["message"], time.Now().Add(-31*time.Minute).UTC().Format(time.RFC3339)))
	}
	start().WarnNow(t.Context(), "Conflict", "same")
	got := strings.Join(texts(s), ", ")
	if !strings.Contains(got, "same x4") || !strings.Contains(got, "other x3") {
		t.Errorf("after half an hour: %s", got)
	}
}

// What could not be written was not said, and takes nobody's room.
func TestWhatIsLostMayBeSaidAgain(t *testing.T) {
	s := apitest.New(t)
	n := ForNode(s.Client(t), "edge-7", silent)
	s.Hook(func(http.ResponseWriter, *http.Request, http.HandlerFunc) { panic(http.ErrAbortHandler) })
	for i := range nodePerHour {
		n.WarnNow(t.Context(), "Conflict", fmt.Sprint("number ", i))
	}
	s.Hook(nil)
	for range 2 {
		n.WarnNow(t.Context(), "Conflict", "number 0")
	}
	if got := strings.Join(texts(s), ", "); got != "edge-7 Conflict number 0 x1" {
		t.Errorf("once the API server is back: %q", got)
	}
	if tries := s.Count("POST " + collection); tries != nodePerHour+1 {
		t.Errorf("%d tries, want %d: what is written is not sent again", tries, nodePerHour+1)
	}
}

// An API server that is away, hangs or says no costs the Event, nothing else.
func TestNodeGivesUp(t *testing.T) {
	s := apitest.New(t)
	s.Hook(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		apitest.Fail(w, http.StatusForbidden, "Forbidden")
	})
	ForNode(s.Client(t), "edge-7", silent).WarnNow(t.Context(), "Conflict", "x")
	if n := s.Count("POST " + collection); n != 1 {
		t.Errorf("%d tries of what is forbidden, want 1", n)
	}
	n := ForNode(s.Client(t), "edge-7", silent)
	for range 10 * nodeQueue { // nobody writes: Warn must not wait
		n.Warn("Conflict", "x")
	}
	s.Close()
	n.WarnNow(t.Context(), "Conflict", "x")
}

func TestMessagesFit(t *testing.T) {
	for _, text := range []string{"short", strings.Repeat("x", 2000), strings.Repeat("€", 1000), strings.Repeat("\xff", 1025)} {
		got := cut(text)
		if len(got) > maxMessage || !strings.HasPrefix(text, got) || len(text) > maxMessage && !utf8.ValidString(got) {
			t.Errorf("a message of %d bytes became one of %d", len(text), len(got))
		}
	}
}

func TestObjectsAreWrittenAbout(t *testing.T) {
	s := apitest.New(t)
	w := ForObjects(s.Client(t), "gridmesh-controller", silent)
	run(t, w.Run)
	w.Event(corev1.ObjectReference{APIVersion: "superedge.io/v1", Kind: "DeploymentGrid", Namespace: "shop", Name: "web", UID: "1-2"}, corev1.EventTypeNormal, "Created", "3 units")
	eventually(t, "the Event is there", func() bool { return len(s.Under("/api/v1/events")) == 1 })
	ev := s.Under("/api/v1/namespaces/shop/events")[0]
	about := ev["involvedObject"].(apitest.Object)
	if ev["type"] != "Normal" || ev["reportingComponent"] != "gridmesh-controller" ||
		about["kind"] != "DeploymentGrid" || about["namespace"] != "shop" || about["uid"] != "1-2" || about["apiVersion"] != "superedge.io/v1" {
		t.Errorf("got %v", ev)
	}
}

// The same Event is counted by a patch; it needs no right to read Events.
func TestObjectsEventsAreCounted(t *testing.T) {
	s := apitest.New(t)
	w := ForObjects(s.Client(t), "gridmesh-controller", silent)
	run(t, w.Run)
	for range 5 {
		w.Event(corev1.ObjectReference{APIVersion: "v1", Kind: "X", Namespace: "default", Name: "web", UID: "1"}, corev1.EventTypeWarning, "Failed", "why")
	}
	eventually(t, "they are counted", func() bool { return strings.Join(texts(s), ", ") == "web Failed why x5" })
	for _, r := range s.Requests() {
		if strings.HasPrefix(r, "GET") {
			t.Errorf("asked %s", r)
		}
	}
	// Events are deleted after an hour: the next one is new.
	for _, ev := range s.Under(collection) {
		s.Delete(collection + "/" + ev["metadata"].(apitest.Object)["name"].(string))
	}
	w.Event(corev1.ObjectReference{APIVersion: "v1", Kind: "X", Namespace: "default", Name: "web", UID: "1"}, corev1.EventTypeWarning, "Failed", "why")
	eventually(t, "it is there again", func() bool { return strings.Join(texts(s), ", ") == "web Failed why x6" })
}

// Many alike become one, and one object does not take the place of others.
func TestObjectsEventsAreLimited(t *testing.T) {
	s := apitest.New(t)
	w := ForObjects(s.Client(t), "gridmesh-controller", silent)
	run(t, w.Run)
	for i := range 100 {
		w.Event(corev1.ObjectReference{APIVersion: "v1", Kind: "X", Namespace: "default", Name: "busy", UID: "1"}, corev1.EventTypeWarning, "Failed", fmt.Sprint("for reason ", i))
	}
	w.Event(corev1.ObjectReference{APIVersion: "v1", Kind: "X", Namespace: "default", Name: "quiet", UID: "2"}, corev1.EventTypeWarning, "Failed", "once")
	eventually(t, "the quiet one is there", func() bool { return strings.Contains(strings.Join(texts(s), ", "), "quiet Failed once x1") })
	busy, combined := 0, false
	for _, text := range texts(s) {
		if strings.HasPrefix(text, "busy") {
			busy++
			combined = combined || strings.Contains(text, "combined from similar events")
		}
	}
	if busy != 10 || !combined {
		t.Errorf("%d Events about the busy one, want 9 and one of all others: %q", busy, texts(s))
	}
	if n := len(s.Requests()); n > 25+1 { // a burst of 25, and the quiet one
		t.Errorf("%d requests", n)
	}
}

// An Event of which the answer is lost is there once; while the API server is
// away it is tried again.
func TestObjectsEventsAreTriedAgain(t *testing.T) {
	s := apitest.New(t)
	w := ForObjects(s.Client(t), "gridmesh-controller", silent)
	var waited []time.Duration
	w.sleep = func(_ context.Context, d time.Duration) { waited = append(waited, d) }
	var tries atomic.Int32
	s.Hook(func(_ http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		try := tries.Add(1)
		if try > 1 {
			next(httptest.NewRecorder(), r)
		}
		if try > 2 {
			s.Hook(nil)
		}
		panic(http.ErrAbortHandler)
	})
	w.write(t.Context(), w.event(corev1.ObjectReference{Kind: "X", Name: "web"}, "Normal", "Created", "x"))
	if got := texts(s); len(got) != 1 {
		t.Errorf("Events %q, want one", got)
	}
	if len(waited) == 0 || waited[0] > retryWait {
		t.Errorf("waited %v", waited)
	}
	s.Close()
	waited = nil
	w.write(t.Context(), w.event(corev1.ObjectReference{Kind: "X", Name: "web"}, "Normal", "Created", "y"))
	if len(waited) != objectTries-1 {
		t.Errorf("waited %d times, want %d", len(waited), objectTries-1)
	}
}
