package admission

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gridmesh/gridmesh/admission/mutate"
	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/quiet"
	"github.com/gridmesh/gridmesh/kube/objects"
)

// askEvery is how often the shield is asked for, besides the watch: one that hangs, or
// is refused, says nothing of it.
const askEvery = 15 * time.Second

// Mirror is what is known of objects: an objects.Mirror.
type Mirror interface {
	Get(kind, namespace, name string) map[string]any
	Wake() <-chan struct{}
}

// Asker is a Mirror that the API server itself can be asked by.
type Asker interface {
	Mirror
	Live(ctx context.Context, kind, namespace, name string) (map[string]any, error)
}

// ShieldKind is what a Shield reads.
func ShieldKind(namespace string) objects.Kind {
	return objects.Kind{
		Resource: schema.GroupVersionResource{Group: names.NodeTableGroup, Version: names.NodeTableVersion, Resource: names.NodeTables},
		Kind:     names.NodeTableKind, Namespace: namespace, Name: names.Shield,
	}
}

// Prune drops what nobody here reads.
func Prune(obj map[string]any) {
	if meta, ok := obj["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
	}
}

// Shield is which nodes are shielded, and until when, as the API server last told. What
// was told stays while it is away: each entry has its end.
type Shield struct {
	objects   Asker
	namespace string
	log       *slog.Logger
	odd, away quiet.Line // of the goroutine of Run

	until  atomic.Pointer[mutate.Shield]
	known  atomic.Bool
	heard  atomic.Int64 // when, in ns; at first when it was made
	unread atomic.Int64
}

// NewShield reads the shield in a namespace.
func NewShield(a Asker, namespace string, log *slog.Logger, m *Metrics) *Shield {
	s := &Shield{objects: a, namespace: namespace, log: log}
	s.until.Store(&mutate.Shield{})
	s.heard.Store(time.Now().UnixNano())
	m.ofShield(s)
	return s
}

// Until returns the nodes that are shielded, with the ends of that. It is not to be
// written to.
func (s *Shield) Until() mutate.Shield { return *s.until.Load() }

var errUnknown = errors.New("the shield is not known yet")

// Err is nil once the shield was known: it suits a readiness check.
func (s *Shield) Err() error {
	if !s.known.Load() {
		return errUnknown
	}
	return nil
}

// Run follows the shield until ctx ends; listed is closed once the mirror is whole. It does not
// wait for that: the kind may not be served yet.
func (s *Shield) Run(ctx context.Context, listed <-chan struct{}) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	answers := make(chan answered)
	asks := true // what the mirror tells does not wait for the API server's answer
	go s.ask(ctx, answers)
	older := false // than what the mirror has told, is the answer that is waited for
	for {
		select {
		case <-ctx.Done():
			if asks {
				<-answers
			}
			return nil
		case <-listed:
			listed, older = nil, true
			s.take(s.objects.Get(names.NodeTableKind, s.namespace, names.Shield))
		case <-s.objects.Wake():
			older = true
			s.take(s.objects.Get(names.NodeTableKind, s.namespace, names.Shield))
		case a := <-answers:
			if asks = false; !older || a.err != nil {
				s.judge(a.obj, a.err)
			}
		case <-tick.C:
			if !asks {
				asks, older = true, false
				go s.ask(ctx, answers)
			}
		}
	}
}

// answered is what the API server itself says.
type answered struct {
	obj map[string]any
	err error
}

func (s *Shield) ask(ctx context.Context, to chan<- answered) {
	ctx, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	obj, err := s.objects.Live(ctx, names.NodeTableKind, s.namespace, names.Shield)
	to <- answered{obj, err}
}

// judge takes an answer.
func (s *Shield) judge(obj map[string]any, err error) {
	if apierrors.IsNotFound(err) && !s.known.Load() {
		// The kind is not served: gridmesh-controller installs it, and has shielded nobody yet.
		// Later that tells nothing: an API server that starts says it, too.
		s.take(nil)
		return
	}
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			s.away.Say(s.log.Warn, "cannot ask who is shielded; what was known stays", obs.KeyErr, err)
		}
		return
	}
	s.take(obj)
}

// take takes over a NodeTable. Where there is none nobody is shielded.
func (s *Shield) take(obj map[string]any) {
	data, _ := obj["data"].(map[string]any)
	entries := make(map[string]string, len(data))
	for node, v := range data {
		entries[node], _ = v.(string)
	}
	next, wrong := mutate.ParseShield(entries)
	if len(wrong) > 0 {
		s.odd.Say(s.log.Error, "entries of the shield are no time, as 2026-01-02T15:04:05Z, and shield nobody", obs.KeyWhich, wrong[:min(len(wrong), 5)])
	}
	s.until.Store(&next)
	s.unread.Store(int64(len(wrong)))
	s.heard.Store(time.Now().UnixNano())
	s.known.Store(true)
}

// inForce counts the nodes that are shielded at a time.
func (s *Shield) inForce(now time.Time) (n int) {
	for _, until := range s.Until() {
		if now.Before(until) {
			n++
		}
	}
	return n
}

// stale is for how long the API server has told nothing.
func (s *Shield) stale(now time.Time) time.Duration {
	return max(0, now.Sub(time.Unix(0, s.heard.Load())))
}
