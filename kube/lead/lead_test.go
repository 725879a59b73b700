package lead

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/klog/v2"

	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/internal/apitest"
)

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

const lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/controller"

func election(who string) Election {
	return Election{Namespace: "default", Name: "controller", Identity: who, Lease: 2 * time.Second, Renew: time.Second, RetryWait: 100 * time.Millisecond}
}

func holder(s *apitest.Server) string {
	spec, _ := s.Get(lease)["spec"].(apitest.Object)
	return fmt.Sprint(spec["holderIdentity"])
}

// One leads, another waits and leads when the first is done, at once, for the
// lease is given back.
func TestOneLeadsAtATime(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	var leading atomic.Int64
	done, led := errors.New("done"), make(chan string, 2)
	finish := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
	ended := make(chan error, 2)
	for who, end := range finish {
		c := s.Client(t)
		go func() {
			ended <- Run(t.Context(), c, election(who), func(context.Context) error {
				if leading.Add(1) != 1 {
					t.Error("two lead")
				}
				defer leading.Add(-1)
				led <- who
				<-end
				return done
			})
		}()
	}
	first := <-led
	if got := holder(s); got != first {
		t.Errorf("%s leads and %s holds the lease", first, got)
	}
	close(finish[first])
	begin, second := time.Now(), <-led
	if first == second {
		t.Errorf("%s leads twice", first)
	}
	t.Logf("handed over within %s", time.Since(begin))
	close(finish[second])
	for range 2 {
		if err := <-ended; !errors.Is(err, done) {
			t.Errorf("ended with %v, want what the work returned", err)
		}
	}
}

// Whoever cannot renew its lease must not go on: another may lead by then.
func TestLostLeaseEndsTheWork(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	err := Run(t.Context(), s.Client(t), election("a"), func(ctx context.Context) error {
		s.Hook(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
			apitest.Fail(w, http.StatusInternalServerError, "InternalError")
		})
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Second):
			t.Error("the work goes on without a lease")
		}
		return nil
	})
	if !errors.Is(err, ErrLost) {
		t.Errorf("ended with %v, want %v", err, ErrLost)
	}
}

// A loss is told as one also where the work was cut short while it installed.
func TestLostLeaseDuringAnInstall(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	c := s.Client(t)
	s.Put(t, fmt.Sprintf(crdYAML+"}", "new")) // and it never serves
	err := Run(t.Context(), c, election("a"), func(ctx context.Context) error {
		s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
			if strings.HasSuffix(r.URL.Path, "/leases/controller") {
				apitest.Fail(w, http.StatusInternalServerError, "InternalError")
				return
			}
			next(w, r)
		})
		return crds(c, []byte(fmt.Sprintf(crdYAML+"}", "new"))).Install(ctx)
	})
	if !errors.Is(err, ErrLost) {
		t.Errorf("ended with %v, want %v", err, ErrLost)
	}
}

// Work that ended for a reason of its own says that one, lost or not.
func TestLostLeaseHidesNoReason(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	full := errors.New("the disk is full")
	err := Run(t.Context(), s.Client(t), election("a"), func(ctx context.Context) error {
		s.Hook(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
			apitest.Fail(w, http.StatusInternalServerError, "InternalError")
		})
		<-ctx.Done()
		return full
	})
	if !errors.Is(err, full) {
		t.Errorf("ended with %v, want %v", err, full)
	}
}

func TestNoLeaderBeforeTheEnd(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	s.Put(t, fmt.Sprintf(`{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {namespace: default, name: controller},
  spec: {holderIdentity: other, leaseDurationSeconds: 60, renewTime: %q}}`, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := Run(ctx, s.Client(t), election("a"), func(context.Context) error {
		t.Error("leads though another does")
		return nil
	})
	if err != nil || holder(s) != "other" {
		t.Errorf("ended with %v; %s holds the lease", err, holder(s))
	}
	if err := Run(ctx, s.Client(t), Election{}, nil); err == nil {
		t.Error("an election without a name was accepted")
	}
}

const (
	crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/x"
	crdYAML = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x}, spec: {group: %s}`
	serving = `, status: {conditions: [{type: NamesAccepted, status: "True"}, {type: Established, status: "True"}]}}`
)

func same(wanted, live any) bool { return reflect.DeepEqual(wanted, live) }

func crds(c *kube.Client, manifest []byte) *CRDs {
	return &CRDs{Client: c, Manifests: [][]byte{manifest}, Manager: "gridmesh", Same: same, Log: slog.New(slog.DiscardHandler)}
}

func TestCRDsAreWrittenWhereTheyDiffer(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	c, manifest := s.Client(t), []byte(fmt.Sprintf(crdYAML+"}", "new"))
	install := func() error { return crds(c, manifest).Install(t.Context()) }
	// It does not serve at once.
	var asked atomic.Int64
	s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		if next(w, r); asked.Add(1) == 3 {
			s.Put(t, fmt.Sprintf(crdYAML+serving, "new"))
		}
	})
	if err := install(); err != nil || s.Count("PATCH "+crdPath) != 1 {
		t.Errorf("a new one: %v, %d writes", err, s.Count("PATCH "+crdPath))
	}
	s.Hook(nil)
	if err := install(); err != nil || s.Count("PATCH "+crdPath) != 1 {
		t.Errorf("the same one: %v, %d writes", err, s.Count("PATCH "+crdPath))
	}
	s.Put(t, fmt.Sprintf(crdYAML+serving, "old"))
	if err := install(); err != nil || s.Count("PATCH "+crdPath) != 2 {
		t.Errorf("another one: %v, %d writes", err, s.Count("PATCH "+crdPath))
	}
	if group := s.Get(crdPath)["spec"].(apitest.Object)["group"]; group != "new" {
		t.Errorf("its group is %s", group)
	}
}

// An API server that has just started forbids everything for a moment.
func TestInstallOfCRDsBesideAStart(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	c, manifest := s.Client(t), []byte(fmt.Sprintf(crdYAML+"}", "new"))
	s.Put(t, fmt.Sprintf(crdYAML+serving, "new"))
	var asked atomic.Int64
	s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		if asked.Add(1) <= 3 {
			apitest.Fail(w, http.StatusForbidden, "Forbidden")
			return
		}
		next(w, r)
	})
	if err := crds(c, manifest).Install(t.Context()); err != nil || asked.Load() < 4 {
		t.Errorf("%v after %d requests", err, asked.Load())
	}
}

func TestInstallOfCRDsGivesUp(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	c, manifest := s.Client(t), []byte(fmt.Sprintf(crdYAML+"}", "new"))
	if err := crds(c, []byte("{")).Install(t.Context()); err == nil {
		t.Error("half a manifest was accepted")
	}
	code, reason := http.StatusForbidden, "Forbidden"
	s.Hook(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) { apitest.Fail(w, code, reason) })
	forbidden := crds(c, manifest)
	forbidden.Refused = 3 * crdRetry
	if err := forbidden.Install(t.Context()); err == nil || !strings.Contains(err.Error(), "install CRD x") {
		t.Errorf("forbidden: %v", err)
	}
	// What may pass is waited for, as long as there is time.
	code, reason = http.StatusServiceUnavailable, "ServiceUnavailable"
	ctx, cancel := context.WithTimeout(t.Context(), 3*crdRetry)
	defer cancel()
	if err := crds(c, manifest).Install(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("away: %v", err)
	}
}

// One that fails, or hangs, keeps no other from being installed.
func TestACRDThatFailsStopsNoOther(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	s.Put(t, fmt.Sprintf(crdYAML+serving, "old"))
	k := crds(s.Client(t), []byte(fmt.Sprintf(crdYAML+"}", "new")))
	k.Manifests = append(k.Manifests, []byte(strings.Replace(fmt.Sprintf(crdYAML+"}", "new"), "name: x", "name: other", 1)))
	s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		if r.URL.Path == crdPath {
			apitest.Fail(w, http.StatusInternalServerError, "broken webhook")
			return
		}
		next(w, r)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*crdRetry)
	defer cancel()
	other := strings.TrimSuffix(crdPath, "x") + "other"
	if err := k.Install(ctx); err == nil || !strings.Contains(err.Error(), "install CRD x") || s.Count("PATCH "+other) == 0 {
		t.Errorf("%v; the other was written %d times", err, s.Count("PATCH "+other))
	}
}

// What Keep cannot bring back it says, though it goes on trying: an API server that
// fails for ever was asked in silence.
func TestKeepSaysWhatItCannot(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	var log testkit.Output
	k := crds(s.Client(t), []byte(fmt.Sprintf(crdYAML+"}", "new")))
	var found atomic.Value // whether the last look failed
	k.Log, k.Every, k.Found = slog.New(slog.NewTextHandler(&log, nil)), 3*crdRetry, func(err error) { found.Store(err != nil) }
	s.Hook(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		apitest.Fail(w, http.StatusInternalServerError, "broken webhook")
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Keep(ctx) }()
	for begin := time.Now(); !strings.Contains(log.String(), "broken webhook"); time.Sleep(crdRetry) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("it says: %s", log.String())
		}
	}
	is := func(failing bool) {
		t.Helper()
		for begin := time.Now(); found.Load() != failing; time.Sleep(crdRetry) {
			if time.Since(begin) > time.Minute {
				t.Fatalf("that a look failed is told as %v", found.Load())
			}
		}
	}
	is(true)
	s.Hook(nil)
	s.Put(t, fmt.Sprintf(crdYAML+serving, "old"))
	for begin := time.Now(); s.Get(crdPath)["spec"].(apitest.Object)["group"] != "new"; time.Sleep(crdRetry) {
		if time.Since(begin) > time.Minute {
			t.Fatal("it was not brought back")
		}
	}
	is(false)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
