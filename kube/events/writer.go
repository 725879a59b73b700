package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/kube"
)

const (
	maxMessage = 1024 // bytes, as the API server allows
	patience   = 5 * time.Second
	retryWait  = 10 * time.Second
)

// config is what differs between those who write.
type config struct {
	source     corev1.EventSource
	controller string
	// name names an Event. One that stays the same for the same Event makes it
	// known again after a restart.
	name func(ev *corev1.Event) string
	// correlate drops what is too much, and makes one Event of many alike.
	correlate func(ev *corev1.Event) *record.EventCorrelateResult
	// wrote takes an Event as the API server has it by then; nil for nobody.
	wrote func(ev *corev1.Event)
	// repeat is how long the same Event, known by its name, is not repeated; 0:
	// one of the same name is let be.
	repeat time.Duration
	tries  int // while no API server answers
	queue  int
}

// Writer writes Events about objects.
type Writer struct {
	client *kube.Client
	log    *slog.Logger
	cfg    config
	queue  chan *corev1.Event
	sleep  func(ctx context.Context, d time.Duration)
}

func newWriter(c *kube.Client, log *slog.Logger, cfg config) *Writer {
	return &Writer{client: c, log: log, cfg: cfg, queue: make(chan *corev1.Event, cfg.queue), sleep: sleep}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Run writes what was queued, until ctx ends.
func (w *Writer) Run(ctx context.Context) error {
	for {
		select {
		case ev := <-w.queue:
			w.write(ctx, ev)
		case <-ctx.Done():
			return nil
		}
	}
}

// Event queues an Event of a type (corev1.EventTypeNormal or Warning) about an
// object. It never blocks: what does not fit is dropped.
func (w *Writer) Event(about corev1.ObjectReference, eventType, reason, message string) {
	w.put(w.event(about, eventType, reason, message))
}

func (w *Writer) put(ev *corev1.Event) {
	select {
	case w.queue <- ev:
	default:
	}
}

// event makes an Event about an object; that of one without a namespace is in
// the default one.
func (w *Writer) event(about corev1.ObjectReference, level, reason, message string) *corev1.Event {
	now := metav1.Now()
	ev := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: about.Namespace},
		InvolvedObject: about,
		Reason:         reason, Message: cut(message), Type: level, Source: w.cfg.source,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		ReportingController: w.cfg.controller, ReportingInstance: w.cfg.source.Host,
	}
	if ev.Namespace == "" {
		ev.Namespace = metav1.NamespaceDefault
	}
	ev.Name = w.cfg.name(ev)
	return ev
}

// cut makes a message fit into an Event.
func cut(message string) string {
	if len(message) > maxMessage {
		return strings.ToValidUTF8(message[:maxMessage], "")
	}
	return message
}

// write writes an Event where the limits allow it. An API server that is away
// costs some time, and then the Event.
func (w *Writer) write(ctx context.Context, ev *corev1.Event) {
	out := w.cfg.correlate(ev)
	if out.Skip {
		return
	}
	for try := 1; ; try++ {
		err := w.send(ctx, out)
		if err == nil {
			return
		}
		// An API server that says no will do so again.
		var status apierrors.APIStatus
		if try >= w.cfg.tries || errors.As(err, &status) || ctx.Err() != nil {
			w.log.Debug("could not write an Event", obs.KeyReason, ev.Reason, obs.KeyErr, err)
			return
		}
		wait := retryWait
		if try == 1 { // not every client at once when the API server is back
			wait = rand.N(retryWait)
		}
		w.sleep(ctx, wait)
	}
}

// send writes once: a patch of the Event before, or a new one.
func (w *Writer) send(ctx context.Context, out *record.EventCorrelateResult) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	api := w.client.Typed.CoreV1().Events(out.Event.Namespace)
	var wrote *corev1.Event
	var err error
	create := out.Event.Count <= 1
	if !create {
		wrote, err = api.Patch(ctx, out.Event.Name, types.StrategicMergePatchType, out.Patch, metav1.PatchOptions{})
		create = apierrors.IsNotFound(err) // Events are deleted after an hour
	}
	if create {
		out.Event.ResourceVersion = ""
		wrote, err = api.Create(ctx, out.Event, metav1.CreateOptions{})
	}
	switch {
	case apierrors.IsAlreadyExists(err) && w.cfg.repeat > 0:
		wrote, err = w.again(ctx, out.Event)
	case apierrors.IsAlreadyExists(err): // the answer to the try before was lost
		return nil
	}
	if err == nil && w.cfg.wrote != nil {
		w.cfg.wrote(wrote)
	}
	return err
}

// again counts an Event that exists once more, unless it is too early, and returns it.
func (w *Writer) again(ctx context.Context, ev *corev1.Event) (*corev1.Event, error) {
	api := w.client.Typed.CoreV1().Events(ev.Namespace)
	old, err := api.Get(ctx, ev.Name, metav1.GetOptions{})
	if err != nil || ev.LastTimestamp.Sub(old.LastTimestamp.Time) < w.cfg.repeat {
		return old, err
	}
	patch := fmt.Sprintf(`{"count":%d,"lastTimestamp":%q}`, old.Count+1, ev.LastTimestamp.UTC().Format(time.RFC3339))
	return api.Patch(ctx, ev.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
}
