package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
)

// An agent writes at most 10 Events an hour, and the same one, which outlives
// a restart under its name, no more often either.
const (
	eventsPerHour = 10
	eventEvery    = time.Hour / eventsPerHour
	eventsQueued  = 16
	maxMessage    = 1024 // bytes, as the API server allows
	eventPatience = 5 * time.Second
)

// Events writes warnings about this agent's own Node.
type Events struct {
	client *Client
	node   string
	log    *slog.Logger
	limit  flowcontrol.PassiveRateLimiter
	queue  chan warning
}

type warning struct{ reason, message string }

// NewEvents writes Events about a node through c on Run.
func NewEvents(c *Client, node string, log *slog.Logger) *Events {
	return &Events{
		client: c, node: node, log: log, queue: make(chan warning, eventsQueued),
		limit: flowcontrol.NewTokenBucketPassiveRateLimiter(eventsPerHour/3600., eventsPerHour),
	}
}

// Run writes what Warn queued until ctx ends.
func (e *Events) Run(ctx context.Context) error {
	for {
		select {
		case w := <-e.queue:
			e.Write(ctx, w.reason, w.message)
		case <-ctx.Done():
			return nil
		}
	}
}

// Warn queues a warning. It never blocks: what does not fit is dropped, for
// the log has it anyway.
func (e *Events) Warn(reason, message string) {
	select {
	case e.queue <- warning{reason, message}:
	default:
	}
}

// Write writes a warning now, where the limits allow it. An API server that
// is away costs a few seconds and the Event.
func (e *Events) Write(ctx context.Context, reason, message string) {
	if !e.limit.TryAccept() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, eventPatience)
	defer cancel()
	if err := e.write(ctx, reason, message); err != nil {
		e.log.Debug("could not write an Event", "reason", reason, "err", err)
	}
}

// cutMessage makes a message fit into an Event.
func cutMessage(message string) string {
	if len(message) > maxMessage {
		return strings.ToValidUTF8(message[:maxMessage], "")
	}
	return message
}

func (e *Events) write(ctx context.Context, reason, message string) error {
	message = cutMessage(message)
	sum := sha256.Sum256([]byte(reason + "\x00" + message))
	now := metav1.Now()
	ev := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: e.node + ".gridmesh-" + hex.EncodeToString(sum[:8])},
		// The kubelet's convention: a Node's Events carry its name as UID.
		InvolvedObject: corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: e.node, UID: types.UID(e.node)},
		Reason:         reason, Message: message, Type: corev1.EventTypeWarning,
		Source:         corev1.EventSource{Component: "gridmesh-agent", Host: e.node},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		ReportingController: "gridmesh.io/agent", ReportingInstance: e.node,
	}
	api := e.client.kube.CoreV1().Events(ev.Namespace)
	_, err := api.Create(ctx, ev, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	old, err := api.Get(ctx, ev.Name, metav1.GetOptions{})
	if err != nil || now.Sub(old.LastTimestamp.Time) < eventEvery {
		return err
	}
	patch := fmt.Sprintf(`{"count":%d,"lastTimestamp":%q}`, old.Count+1, now.UTC().Format(time.RFC3339))
	_, err = api.Patch(ctx, ev.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}
