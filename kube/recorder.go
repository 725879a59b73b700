package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// Recorder writes Events about objects. Many alike become one, and one object
// has no more than a burst of 25 and then one in five minutes.
type Recorder struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

// NewRecorder writes Events in the name of a component until Close.
func NewRecorder(ctx context.Context, c *Client, component string) *Recorder {
	b := record.NewBroadcaster(record.WithContext(ctx))
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.kube.CoreV1().Events("")})
	return &Recorder{broadcaster: b, recorder: b.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: component})}
}

// Close stops writing.
func (r *Recorder) Close() { r.broadcaster.Shutdown() }

// Event tells about an object. It never blocks.
func (r *Recorder) Event(apiVersion, kind, namespace, name, uid string, warning bool, reason, message string) {
	level := corev1.EventTypeNormal
	if warning {
		level = corev1.EventTypeWarning
	}
	ref := &corev1.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name, UID: types.UID(uid)}
	r.recorder.Event(ref, level, reason, cutMessage(message))
}
