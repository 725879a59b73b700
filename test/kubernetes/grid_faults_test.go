package kubernetes

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// faultProxy stands between a client and the API server, and spoils some of the
// requests that write: too many requests, conflicts, internal errors, and
// answers that are lost though the API server did what was asked.
type faultProxy struct {
	mu      sync.Mutex
	r       *rand.Rand
	spoiled map[string]int
	calm    bool
	before  func(*http.Request) // of every request, when it is not spoiled
}

func (u *faultProxy) choose(req *http.Request) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if req.Method == http.MethodGet || u.calm || strings.Contains(req.URL.Path, "leases") {
		return ""
	}
	how := []string{"", "", "", "429", "409", "500", "lost"}[u.r.IntN(7)]
	u.spoiled[how]++
	return how
}

func (u *faultProxy) handler(to http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		status := func(code int, reason string) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
		}
		switch u.choose(req) {
		case "429":
			status(http.StatusTooManyRequests, "TooManyRequests")
		case "409":
			status(http.StatusConflict, "Conflict")
		case "500":
			status(http.StatusInternalServerError, "InternalError")
		case "lost":
			to.ServeHTTP(&discardWriter{header: http.Header{}}, req)
			panic(http.ErrAbortHandler)
		default:
			if u.before != nil {
				u.before(req)
			}
			to.ServeHTTP(w, req)
		}
	})
}

// discardWriter is a ResponseWriter that nobody hears.
type discardWriter struct{ header http.Header }

func (d *discardWriter) Header() http.Header         { return d.header }
func (d *discardWriter) Write(b []byte) (int, error) { return len(b), nil }
func (d *discardWriter) WriteHeader(int)             {}

// start serves in the cloud's network and returns a kubeconfig for it.
func (u *faultProxy) start(t *testing.T, kubeconfig string) string {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	cfg.Dial = c.Lab.Cloud.Dial
	transport, err := rest.TransportFor(cfg)
	must(t, err)
	to, err := url.Parse(cfg.Host)
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport, proxy.FlushInterval, proxy.ErrorLog = transport, -1, slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	l := listen(t, c.Lab.Cloud)
	s := &http.Server{Handler: u.handler(proxy), ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-ended })
	out := clientcmdapi.NewConfig()
	out.Clusters["x"] = &clientcmdapi.Cluster{Server: "http://" + l.Addr().String()}
	out.Contexts["x"] = &clientcmdapi.Context{Cluster: "x"}
	out.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "faultProxy.kubeconfig")
	must(t, clientcmd.WriteToFile(*out, path))
	must(t, os.Chmod(path, 0o600))
	return path
}

func listen(t *testing.T, ns *netlab.NS) (l net.Listener) {
	t.Helper()
	must(t, ns.Do(func() (err error) {
		l, err = net.Listen("tcp", "127.0.0.1:0")
		return err
	}))
	return l
}

// More than half of the writes fail, one in seven unheard; then the API server
// restarts in the middle of a change. The grids come out right, and once each.
func TestGridsUnderFaults(t *testing.T) {
	inUnits(t, waveUnits)
	u := &faultProxy{r: rand.New(rand.NewPCG(1, 1)), spoiled: map[string]int{}}
	kubeconfig, err := c.ControllerKubeconfig()
	must(t, err)
	p := controllerAt(t, u.start(t, kubeconfig), outlastsAnOutage...)
	applied(t, deploymentGrid("rough", "", "1")+"---"+deploymentGrid("calm", "rollout: {maxUnits: 3}", "1"), "deploymentgrid/rough", "deploymentgrid/calm")
	runs := func(grid, release string) {
		t.Helper()
		wait.Eventually(t, func() error {
			st, err := statusOf(t, "deploymentgrids", grid)
			if err != nil {
				return err
			}
			if st.UpdatedUnits != 6 {
				return fmt.Errorf("%s: %d units are updated", grid, st.UpdatedUnits)
			}
			for unit, name := range children(t, grid) {
				d, err := child(name)
				if err != nil || d.Spec.Template.Spec.Containers[0].Env[0].Value != release || name != grid+"-"+unit {
					return fmt.Errorf("%s runs %v: %w", name, d.Spec.Template.Spec.Containers[0].Env, err)
				}
			}
			return nil
		})
	}
	runs("rough", "1")
	runs("calm", "1")
	must(t, c.Apply(deploymentGrid("rough", "", "2")+"---"+deploymentGrid("calm", "rollout: {maxUnits: 3}", "2")))
	runs("rough", "2")
	runs("calm", "2")
	u.mu.Lock()
	t.Logf("writes by what became of them: %v", u.spoiled)
	for _, how := range []string{"429", "409", "500", "lost"} {
		if u.spoiled[how] == 0 {
			t.Errorf("no write met %q", how)
		}
	}
	u.calm = true
	u.mu.Unlock()

	must(t, c.Apply(deploymentGrid("rough", "", "3")))
	c.StopAPIServer()
	time.Sleep(2 * time.Second) // it is away for two seconds
	start := time.Now()
	must(t, c.StartAPIServer(patient(t)))
	runs("rough", "3")
	t.Logf("in line again %s after the API server", time.Since(start))
	if !p.Running() {
		t.Error("the controller ended")
	}
}

// What a hand writes between a plan and its write is not undone by it: the
// child that is let go of then is let go of.
func TestGridsAndAHandAtOnce(t *testing.T) {
	inUnits(t, waveUnits)
	var armed atomic.Bool
	labelled := make(chan error, 1)
	u := &faultProxy{calm: true, before: func(req *http.Request) {
		write := req.Method == http.MethodPatch && strings.HasSuffix(req.URL.Path, "/deployments/late-u6")
		if write && armed.CompareAndSwap(true, false) {
			_, err := c.Kubectl("label", "--overwrite", "deployment/late-u6", "superedge.io/grid-selector=mine")
			labelled <- err
		}
	}}
	kubeconfig, err := c.ControllerKubeconfig()
	must(t, err)
	controllerAt(t, u.start(t, kubeconfig))
	applied(t, deploymentGrid("late", "", "1"), "deploymentgrid/late", "deployment/late-u6")
	allReady(t, "deploymentgrids", "late", 6)
	// Somebody else applies what is there already: nothing changes but the
	// version, and whose the field is.
	_, err = c.KubectlInput([]byte("{apiVersion: apps/v1, kind: Deployment, metadata: {name: late-u1, labels: {superedge.io/grid-selector: late}}}"),
		"apply", "--server-side", "--field-manager=somebody", "-f", "-")
	must(t, err)
	armed.Store(true)
	must(t, c.Apply(deploymentGrid("late", "", "2")))
	select {
	case err := <-labelled:
		must(t, err)
	case <-time.After(wait.Patience):
		t.Fatal("the grid's change did not come to write to late-u6")
	}
	wait.Eventually(t, func() error {
		d, err := child("late-u6")
		if err == nil && (d.Labels["superedge.io/grid-selector"] != "mine" || len(d.OwnerReferences) > 0) {
			err = fmt.Errorf("late-u6 has labels %v and owners %v", d.Labels, d.OwnerReferences)
		}
		return err
	})
	getsAnother(t, "late", "u6")
	allReady(t, "deploymentgrids", "late", 6)
	wait.Eventually(t, func() error {
		d, err := child("late-u1")
		if err == nil && d.Spec.Template.Spec.Containers[0].Env[0].Value != "2" {
			err = fmt.Errorf("late-u1 runs %v", d.Spec.Template.Spec.Containers[0].Env)
		}
		return err
	})
	d, err := child("late-u6")
	must(t, err)
	if got := d.Spec.Template.Spec.Containers[0].Env[0].Value; got != "1" {
		t.Errorf("late-u6, let go of, runs %s", got)
	}
}
