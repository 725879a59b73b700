package events

import (
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/gridmesh/gridmesh/kube"
)

const (
	objectQueue = 1000
	objectTries = 12 // about two minutes
)

// ForObjects writes Events about objects in the name of a component, on Run.
// The limits are those of client-go's recorder: many Events alike become one,
// and one object has a burst of 25 and then one in five minutes.
func ForObjects(c *kube.Client, component string, log *slog.Logger) *Writer {
	correlator := record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{})
	return newWriter(c, log, config{
		source:     corev1.EventSource{Component: component},
		controller: component,
		name: func(ev *corev1.Event) string {
			return fmt.Sprintf("%s.%x", ev.InvolvedObject.Name, ev.LastTimestamp.UnixNano())
		},
		correlate: func(ev *corev1.Event) *record.EventCorrelateResult {
			out, err := correlator.EventCorrelate(ev)
			if err != nil { // no patch could be made
				return &record.EventCorrelateResult{Event: ev}
			}
			return out
		},
		wrote: correlator.UpdateState,
		tries: objectTries, queue: objectQueue,
	})
}
