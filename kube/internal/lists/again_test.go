package lists

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// A list that is looked at again ends the watch, and no other watch is begun before it; what
// waits for that ends with who asked.
func TestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var a Again
		begin := func(o metav1.ListOptions) (*apiwatch.FakeWatcher, error) {
			fake := apiwatch.NewFake()
			_, err := a.Watch(ctx, o, func(context.Context) (apiwatch.Interface, error) { return fake, nil })
			return fake, err
		}
		ended := func(when string, w *apiwatch.FakeWatcher, want bool) {
			t.Helper()
			synctest.Wait()
			if got := w.IsStopped(); got != want {
				t.Errorf("%s: the watch has ended is %v, want %v", when, got, want)
			}
		}
		for version, want := range map[string]string{"0": "0", "": "", "394": ""} {
			o := metav1.ListOptions{ResourceVersion: version, Limit: 500}
			if a.List(&o); o.ResourceVersion != want {
				t.Errorf("a list of version %q is one of %q, want %q", version, o.ResourceVersion, want)
			}
		}
		first, err := begin(metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		a.After(10 * time.Second)
		time.Sleep(10*time.Second - 1)
		ended("too early", first, false)
		time.Sleep(2*time.Second + 1)
		ended("it is time", first, true)
		if _, err := begin(metav1.ListOptions{}); !apierrors.IsResourceExpired(err) {
			t.Errorf("a watch goes on without a list: %v", err)
		}
		yes := true
		second, err := begin(metav1.ListOptions{SendInitialEvents: &yes}) // which is a list
		if err != nil {
			t.Fatal(err)
		}
		third, err := begin(metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ended("another one begins", second, true)
		a.After(10 * time.Second)
		a.Rest()
		time.Sleep(time.Minute)
		ended("nothing waits", third, false)
		cancel()
		ended("the end", third, true)
	})
}

// A watch that is asked for and not answered yet is given up where a list is due, and no answer is
// waited for.
func TestAListDoesNotWaitForAWatchThatIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Again
		begin := time.Now()
		a.After(10 * time.Second)
		_, err := a.Watch(t.Context(), metav1.ListOptions{}, func(ctx context.Context) (apiwatch.Interface, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(90 * time.Second):
				return nil, errors.New("no answer")
			}
		})
		if took := time.Since(begin); !apierrors.IsResourceExpired(err) || took > 12*time.Second {
			t.Errorf("after %s: %v", took, err)
		}
		a.List(&metav1.ListOptions{})
		fake := apiwatch.NewFake()
		if _, err := a.Watch(t.Context(), metav1.ListOptions{}, func(context.Context) (apiwatch.Interface, error) { return fake, nil }); err != nil {
			t.Error(err)
		}
		a.Rest()
		fake.Stop()
	})
}
