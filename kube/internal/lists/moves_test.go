package lists

import (
	"context"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// What one API server has told is followed at no other: wherever between the beginning of a list and that of
// a watch the address became another one, all is listed once more, and once is enough.
func TestAnotherAPIServerIsListed(t *testing.T) {
	yes := true
	for name, list := range map[string]func(t *testing.T, a *Again, page func()){
		"in pages": func(_ *testing.T, a *Again, page func()) {
			a.List(&metav1.ListOptions{Limit: 500})
			page()
			a.List(&metav1.ListOptions{Limit: 500, Continue: "2"})
		},
		"as a stream": func(t *testing.T, a *Again, page func()) {
			fake := apiwatch.NewRaceFreeFake()
			if _, err := a.Watch(t.Context(), metav1.ListOptions{SendInitialEvents: &yes}, func(context.Context) (apiwatch.Interface, error) { return fake, nil }); err != nil {
				t.Error(err)
			}
			page()
		},
	} {
		for when, moves := range map[string]struct{ listed, before, asked int64 }{
			"never": {}, "while it is listed": {listed: 1}, "before the watch": {before: 1}, "while the watch is asked for": {asked: 1},
		} {
			t.Run(name+" "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var moved int64
					a := &Again{moves: func() int64 { return moved }}
					defer a.Rest()
					follows := func() bool {
						fake := apiwatch.NewRaceFreeFake()
						_, err := a.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "7"}, func(context.Context) (apiwatch.Interface, error) {
							moved += moves.asked
							return fake, nil
						})
						if err != nil && !apierrors.IsResourceExpired(err) {
							t.Error(err)
						}
						synctest.Wait()
						return err == nil && !fake.IsStopped()
					}
					list(t, a, func() { moved += moves.listed })
					moved += moves.before
					for range 2 { // and none before a list
						if got := follows(); got != (when == "never") {
							t.Errorf("it is followed is %v", got)
						}
					}
					moves.asked = 0
					list(t, a, func() {})
					if !follows() {
						t.Error("it is listed again and again")
					}
				})
			})
		}
	}
}
