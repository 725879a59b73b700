package kube

import (
	"errors"
	"reflect"

	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// ErrUnanswered says that an API server gave no answer to a watch.
var ErrUnanswered = errors.New("no answer to a watch: the connection timed out or ended")

// Answered returns what Watch of a client returned, with an error where no answer came:
// client-go gives up on time-outs and on connections that end with a watch that is closed
// from its beginning, and with no error (Request.Watch in k8s.io/client-go/rest).
func Answered(w apiwatch.Interface, err error) (apiwatch.Interface, error) {
	if err == nil && reflect.TypeOf(w) == reflect.TypeOf(apiwatch.NewEmptyWatch()) {
		return nil, ErrUnanswered
	}
	return w, err
}
