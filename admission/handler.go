package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/gridmesh/gridmesh/admission/mutate"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/quiet"
)

const (
	// answerWithin is how long a call may take: the configuration has API servers wait for
	// 1 s, and an answer after that is none.
	answerWithin = 800 * time.Millisecond
	// maxReview is how large a review may be: of two EndpointSlices with a thousand endpoints,
	// the most that there may be, it is a third of that. A larger one is allowed unread.
	maxReview = 3 << 20
	// small is what is read of a review by whoever calls: nearly all are smaller. Together with how
	// many connections there are (serve.go), and with atOnce, it bounds the memory that anybody takes
	// who reaches the port.
	small = 128 << 10
	// atOnce is how many larger reviews are read at a time, and how many reviews are decided; ofPeer
	// is how many of these are one peer's.
	atOnce = 16
	ofPeer = 4
	// largeAtOnce is how many reviews that are larger than small, or have more than fewDecided values,
	// are decided at a time, largeOfPeer those of one peer: a value that is null takes up to two
	// thousand bytes until it is decoded.
	largeAtOnce = 2
	largeOfPeer = 1
	fewDecided  = 4000
)

// What a review may have by its length. An object of three characters takes a thousand bytes of
// memory, a pair of seven a hundred: nothing that is stored comes near to these, of which the
// densest are fields' managers, and the largest two EndpointSlices with a thousand endpoints.
const (
	fewObjects, manyObjects = 1500, 20000
	fewValues, manyValues   = 2000, 64000
)

var errDense = errors.New("it has more objects, or values, than anything of its length that is stored")

// dense reports whether a review would take far more memory than anything that is stored.
func dense(text []byte) bool {
	return bytes.Count(text, []byte("{")) > min(fewObjects+len(text)/48, manyObjects) ||
		bytes.Count(text, []byte(",")) > min(fewValues+len(text)/8, manyValues)
}

// Handler answers API servers.
type Handler struct {
	shield   func() mutate.Shield
	metrics  *Metrics
	log      *slog.Logger
	large    *rooms // of reviews that are larger than small, from then on
	deciding *rooms
	larger   *rooms // of those that are, or have many values, instead
	within   time.Duration

	mu   sync.Mutex
	said map[mutate.Reason]*quiet.Line
}

// NewHandler answers at paths by what shield says.
func NewHandler(shield func() mutate.Shield, m *Metrics, log *slog.Logger) http.Handler {
	return newHandler(shield, m, log, answerWithin).mux(paths)
}

func newHandler(shield func() mutate.Shield, m *Metrics, log *slog.Logger, within time.Duration) *Handler {
	return &Handler{shield: shield, metrics: m, log: log, large: newRooms(atOnce, ofPeer), deciding: newRooms(atOnce, ofPeer), larger: newRooms(largeAtOnce, largeOfPeer), within: within, said: map[mutate.Reason]*quiet.Line{}}
}

func (h *Handler) mux(paths map[string]Decide) *http.ServeMux {
	mux := http.NewServeMux()
	for name, decide := range paths {
		mux.HandleFunc("POST /"+name, func(w http.ResponseWriter, r *http.Request) { h.call(w, r, name, decide) })
	}
	return mux
}

// answer is what a call comes to.
type answer struct {
	review *admissionv1.AdmissionReview
	patch  []byte
	why    mutate.Reason
	err    error
}

// What becomes of calls that nobody decides, beside the reasons of mutate.
const (
	unreadable mutate.Reason = "unreadable" // no review, or an object that is none
	late       mutate.Reason = "late"       // not decided in time
	failed     mutate.Reason = "failed"     // a mistake of ours
)

// call answers a call, and allows what it is about.
func (h *Handler) call(w http.ResponseWriter, r *http.Request, name string, decide Decide) {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), h.within)
	defer cancel()
	_ = http.NewResponseController(w).SetReadDeadline(begin.Add(h.within)) // a recorder of tests has none
	a := h.judge(ctx, peerOf(r), r.Body, decide)
	h.metrics.reviews.WithLabelValues(name, string(a.why)).Inc()
	if a.err != nil {
		h.say(a.why, name, a.err)
	}
	body, err := allowed(a.review, a.patch)
	if err != nil { // of fields that are text
		h.say(failed, name, err)
		http.Error(w, "no answer can be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // who is gone needs none
	h.metrics.took.WithLabelValues(name).Observe(time.Since(begin).Seconds())
}

// nothing is the review that is answered where none could be read.
func nothing() *admissionv1.AdmissionReview {
	review, _ := decode(nil)
	return review
}

var (
	errBusy = errors.New("others are decided, and this one's time was over before its turn came")
	errSlow = errors.New("it was not decided in time")
	errBody = errors.New("its body did not come in time")
)

// judge reads a review and has it decided, for as long as there is time.
// Nobody takes a turn of deciding before there is something to decide.
func (h *Handler) judge(ctx context.Context, peer string, body io.Reader, decide Decide) answer {
	text, leave, err := h.read(ctx, peer, body)
	defer leave()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return answer{nothing(), nil, late, errBody}
	case errors.Is(err, errBusy):
		return answer{nothing(), nil, late, err}
	case err != nil:
		return answer{nothing(), nil, unreadable, err}
	case dense(text):
		return answer{nothing(), nil, unreadable, errDense}
	}
	decided := h.rooms(text).enter(ctx, peer)
	if decided == nil {
		return answer{nothing(), nil, late, errBusy}
	}
	review, err := decode(text)
	if err != nil {
		decided()
		return answer{review, nil, unreadable, err}
	}
	done := make(chan answer, 1)
	go func() {
		defer decided() // also where nobody waits any more
		done <- h.decide(review, decide)
	}()
	select {
	case a := <-done:
		return a
	case <-ctx.Done():
		return answer{review, nil, late, errSlow}
	}
}

// rooms are where a review is decided.
func (h *Handler) rooms(text []byte) *rooms {
	if len(text) > small || bytes.Count(text, []byte(",")) > fewDecided {
		return h.larger
	}
	return h.deciding
}

// read reads what a review may have. Its room, where it is large, is left by the caller, also
// after an error.
func (h *Handler) read(ctx context.Context, peer string, body io.Reader) (text []byte, leave func(), err error) {
	leave = func() {}
	text, err = io.ReadAll(io.LimitReader(body, small+1))
	if err != nil || len(text) <= small {
		return text, leave, err
	}
	if room := h.large.enter(ctx, peer); room != nil {
		leave = room
	} else {
		return nil, leave, errBusy
	}
	rest, err := io.ReadAll(io.LimitReader(body, maxReview+1-int64(len(text))))
	if text = append(text, rest...); err == nil && len(text) > maxReview {
		err = fmt.Errorf("it has more than %d bytes", maxReview)
	}
	return text, leave, err
}

// decide asks who decides. What he panics of costs this call its change, and nothing else.
func (h *Handler) decide(review *admissionv1.AdmissionReview, decide Decide) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			a = answer{review, nil, failed, fmt.Errorf("panic: %v", p)}
		}
	}()
	patch, why, err := decide(review.Request, h.shield())
	if err != nil {
		return answer{review, nil, unreadable, err}
	}
	return answer{review, patch, why, nil}
}

// say logs now and then what went wrong.
func (h *Handler) say(why mutate.Reason, name string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	line := h.said[why]
	if line == nil {
		line = &quiet.Line{}
		h.said[why] = line
	}
	line.Say(h.log.Error, "a write was allowed as it is, for it could not be judged", obs.KeyReview, name, obs.KeyReason, why, obs.KeyErr, err)
}
