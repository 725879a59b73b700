package kubernetes

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gridmesh/gridmesh/admission/policy"
	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// Where the webhook answers: in the cloud's network, as the API server.
const (
	webhookAt        = "127.0.0.1:18443"
	webhookHealthAt  = "127.0.0.1:18367"
	webhookMetricsAt = "127.0.0.1:18368"
	nodeController   = "system:serviceaccount:kube-system:node-controller"
)

// webhook is a program that answers, another that makes its certificate, and who
// writes as the controller manager does.
type webhook struct {
	answers *edge.Process
	flags   []string
	client  kubernetes.Interface
	metrics *http.Client
}

// startWebhook runs two replicas with the rights of deploy/, of which the second answers,
// and has the API server ask it as deploy/ does, at an address that it reaches here, and with
// patience.
func startWebhook(t *testing.T, flags ...string) *webhook {
	t.Helper()
	kubeconfig, err := c.AdmissionKubeconfig()
	must(t, err)
	_, err = c.Kubectl("delete", "--ignore-not-found", "--namespace", "gridmesh", "secret/gridmesh-admission-certs")
	must(t, err)
	unapply(t, string(policy.NodeTables())) // it may be there before gridmesh-controller has installed the kind
	must(t, c.Apply(admissionObject(t, "Secret")))
	applied(t, patientWebhooks(t), "mutatingwebhookconfiguration/gridmesh-admission")
	cfg := c.RESTConfig()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: nodeController, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}}
	client, err := kubernetes.NewForConfig(cfg)
	must(t, err)
	w := &webhook{client: client, metrics: &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: c.Lab.Cloud.Dial, DisableKeepAlives: true}}}
	common := append([]string{"--kubeconfig", kubeconfig, "--certificate-hosts", "127.0.0.1"}, flags...)
	issuer, err := edge.Start(c.Lab.Cloud, "issuer", append([]string{
		edge.Binary("gridmesh-admission"), "--webhook-bind-address", "127.0.0.1:18444", "--healthz-bind-address", "", "--metrics-bind-address", "",
	}, common...)...)
	must(t, err)
	endsWith(t, issuer)
	wait.Eventually(t, func() error { return w.believed(t) })
	w.flags = append([]string{"--webhook-bind-address", webhookAt, "--healthz-bind-address", webhookHealthAt, "--metrics-bind-address", webhookMetricsAt}, common...)
	w.start(t)
	return w
}

// start starts the replica that answers.
func (w *webhook) start(t *testing.T) {
	t.Helper()
	var err error
	w.answers, err = edge.Start(c.Lab.Cloud, "webhook", append([]string{edge.Binary("gridmesh-admission")}, w.flags...)...)
	must(t, err)
	endsWith(t, w.answers)
	wait.Eventually(t, func() error {
		_, err := w.get("http://" + webhookHealthAt + "/readyz")
		return err
	})
}

func (w *webhook) get(url string) (string, error) {
	answer, err := w.metrics.Get(url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return string(text), err
}

// counted is the sum of a metric's values in a text, of those lines that have all words.
func counted(text, name string, words ...string) (sum float64) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, name) {
			continue
		}
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		fields := strings.Fields(line)
		if v, err := strconv.ParseFloat(fields[len(fields)-1], 64); err == nil && all {
			sum += v
		}
	}
	return sum
}

// admissionObject is an object of deploy/admission; webhooks are at the address of here.
func admissionObject(t *testing.T, kind string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(edge.Root(), "deploy/admission/admission.yaml"))
	must(t, err)
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		if strings.Contains(doc, "\nkind: "+kind+"\n") {
			return regexp.MustCompile(`service: \{[^}]* path: (/[a-z-]+)\}`).ReplaceAllString(doc, `url: "https://`+webhookAt+`$1"`)
		}
	}
	t.Fatalf("deploy/admission has no %s", kind)
	return ""
}

// patientWebhooks gives a call ten seconds, and not the one of deploy/: that one is for a
// webhook that hangs, and a first call has a TLS handshake with a busy machine in it.
func patientWebhooks(t *testing.T) string {
	t.Helper()
	const second = "timeoutSeconds: 1\n"
	text := admissionObject(t, "MutatingWebhookConfiguration")
	if n := strings.Count(text, second); n != 2 {
		t.Fatalf("deploy/admission gives %d webhooks a second, want 2", n)
	}
	return strings.ReplaceAll(text, second, "timeoutSeconds: 10\n")
}

// bundle is what the API server believes of the first webhook.
func bundle(t *testing.T) []byte {
	t.Helper()
	config, err := c.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(patient(t), "gridmesh-admission", metav1.GetOptions{})
	must(t, err)
	return config.Webhooks[0].ClientConfig.CABundle
}

func (w *webhook) believed(t *testing.T) error {
	t.Helper()
	if len(bundle(t)) == 0 {
		return errors.New("the configuration has no caBundle yet")
	}
	return nil
}

// shield names nodes as shielded for a while.
func (w *webhook) shield(t *testing.T, nodes ...string) {
	t.Helper()
	wait.Eventually(t, func() error { return c.Apply(string(policy.NodeTables())) })
	data := map[string]string{}
	for _, node := range nodes {
		data[node] = inAnHour()
	}
	parameter(t, names.Shield, data)
	wait.Eventually(t, func() error {
		text, err := w.get("http://" + webhookMetricsAt + "/metrics")
		if n := counted(text, "gridmesh_admission_shielded_nodes"); err == nil && n != float64(len(nodes)) {
			err = fmt.Errorf("%v are shielded", n)
		}
		return err
	})
}

// lost makes a Node that nobody runs.
func lost(t *testing.T, name string) {
	t.Helper()
	applied(t, fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s}, spec: {unschedulable: true}}", name), "node/"+name)
}

// taint has the controller manager's account taint a node as lost, and reports whether
// the taint that evicts is there then, and how long the write took.
func (w *webhook) taint(ctx context.Context, node string) (evicts bool, took time.Duration, err error) {
	set := func(taints string) (*corev1.Node, error) {
		return w.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(`{"spec": {"taints": [`+taints+`]}}`), metav1.PatchOptions{})
	}
	const plain = `{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}`
	if _, err := set(plain); err != nil {
		return false, 0, err
	}
	begin := time.Now()
	n, err := set(fmt.Sprintf(`%s, {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": %q}`, plain, begin.UTC().Format(time.RFC3339)))
	took = time.Since(begin)
	if err != nil {
		return false, took, err
	}
	for _, taint := range n.Spec.Taints {
		if evicts = taint.Effect == corev1.TaintEffectNoExecute; evicts {
			break
		}
	}
	if len(n.Spec.Taints) == 0 {
		err = fmt.Errorf("%s has no taint at all", node)
	}
	return evicts, took, err
}

// taints holds a node to whether it has the taint that evicts, once it was written.
func (w *webhook) taints(t *testing.T, node string, want bool) (took time.Duration) {
	t.Helper()
	evicts, took, err := w.taint(patient(t), node)
	if err != nil || evicts != want {
		t.Errorf("%s is tainted: %v, want %v, after %s (%v)", node, evicts, want, took, err)
	}
	return took
}

// The API server has the controller manager's writes about shielded nodes taken back, by
// a certificate that the webhook has made for itself; others' writes stay; and a webhook that is
// dead or hangs is in nobody's way.
func TestWebhook(t *testing.T) {
	w := startWebhook(t)
	lost(t, "lost-1")
	lost(t, "lost-2")
	w.shield(t, "lost-1")
	w.taints(t, "lost-1", false)
	w.taints(t, "lost-2", true)
	own := &webhook{client: c.Kube} // an administrator's word stands
	own.taints(t, "lost-1", true)
	w.keepsPods(t)
	w.answersOldReviews(t)

	before := bundle(t)
	must(t, c.Apply(admissionObject(t, "Secret")))
	must(t, c.Apply(patientWebhooks(t)))
	if after := bundle(t); !bytes.Equal(before, after) {
		t.Error("to apply the manifests again takes the authority away")
	}
	w.taints(t, "lost-1", false)

	must(t, c.Apply(admissionObject(t, "MutatingWebhookConfiguration"))) // with the second of deploy/
	w.answers.Signal(syscall.SIGSTOP)
	wait.Eventually(t, func() error { // until the API server has seen it: the ten of before are more
		_, took, err := w.taint(patient(t), "lost-1")
		if err == nil && took > hangs {
			err = fmt.Errorf("a write took %s", took)
		}
		return err
	})
	if took := w.taints(t, "lost-1", true); took < 900*time.Millisecond || took > hangs {
		t.Errorf("a write took %s while the webhook hangs", took)
	}
	w.answers.Signal(syscall.SIGCONT)
	wait.Eventually(t, func() error {
		if evicts, _, err := w.taint(patient(t), "lost-1"); err != nil || evicts {
			return fmt.Errorf("it does not answer again: %w", err)
		}
		return nil
	})
	w.answers.Kill()
	if took := w.taints(t, "lost-1", true); took > hangs {
		t.Errorf("a write took %s while the webhook is dead", took)
	}
	must(t, c.Apply(patientWebhooks(t)))
	w.start(t)
	w.shield(t, "lost-1", "lost-2")
	w.taints(t, "lost-2", false)
	if said := w.answers.Log(); strings.Contains(said, "forbidden") {
		t.Errorf("the rights of deploy/ are not enough:\n%s", said)
	}
}

// hangs is how long a write may take where the webhook does not answer: the API server
// waits for a second; on the slowest machine it took 1.1 s.
const hangs = 6 * time.Second

// keepsPods: what the controller manager writes of a pod's readiness changes nothing,
// so nothing is stored.
func (w *webhook) keepsPods(t *testing.T) {
	t.Helper()
	applied(t, `{apiVersion: v1, kind: Pod, metadata: {name: stays}, spec: {nodeName: lost-1, terminationGracePeriodSeconds: 0, containers: [{name: app, image: gridmesh.test/app}]}}`, "pod/stays")
	pods := c.Kube.CoreV1().Pods("default")
	set := func(pods interface {
		UpdateStatus(ctx context.Context, pod *corev1.Pod, o metav1.UpdateOptions) (*corev1.Pod, error)
	}, change func(s *corev1.PodStatus),
	) (before, after *corev1.Pod) {
		wait.Eventually(t, func() (err error) {
			if before, err = c.Kube.CoreV1().Pods("default").Get(patient(t), "stays", metav1.GetOptions{}); err != nil {
				return err
			}
			next := before.DeepCopy()
			change(&next.Status)
			after, err = pods.UpdateStatus(patient(t), next, metav1.UpdateOptions{})
			if err != nil && !apierrors.IsConflict(err) {
				must(t, err)
			}
			return err
		})
		return before, after
	}
	past := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	set(pods, func(s *corev1.PodStatus) {
		s.Phase = corev1.PodRunning
		s.Conditions = []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionTrue, LastTransitionTime: past}, {Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: past}}
	})
	mark := func(s *corev1.PodStatus) {
		for i := range s.Conditions {
			if s.Conditions[i].Type == corev1.PodReady {
				s.Conditions[i].Status, s.Conditions[i].LastTransitionTime = corev1.ConditionFalse, metav1.Now()
			}
		}
	}
	before, after := set(w.client.CoreV1().Pods("default"), mark)
	if before.ResourceVersion != after.ResourceVersion {
		t.Errorf("the pod was written: %v", after.Status.Conditions)
	}
	if _, after = set(pods, mark); after.ResourceVersion == before.ResourceVersion {
		t.Error("another's word about the pod is not taken")
	}
}

// answersOldReviews asks as an API server of SuperEdge's time did.
func (w *webhook) answersOldReviews(t *testing.T) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle(t))
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: c.Lab.Cloud.Dial, DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	body := fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"705ab4f5","kind":{"group":"","version":"v1","kind":"Node"},"resource":{"group":"","version":"v1","resource":"nodes"},
"name":"lost-1","operation":"UPDATE","userInfo":{"username":%q},"object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"lost-1"},"spec":{"taints":[{"key":"node.kubernetes.io/unreachable","effect":"NoExecute","timeAdded":%q}]}},
"oldObject":{"kind":"Node","apiVersion":"v1","metadata":{"name":"lost-1"},"spec":{}},"dryRun":true}}`, nodeController, time.Now().UTC().Format(time.RFC3339))
	answer, err := client.Post("https://"+webhookAt+"/node-taint?timeout=5s", "application/json", strings.NewReader(body))
	must(t, err)
	defer answer.Body.Close()
	var out struct {
		APIVersion, Kind string
		Response         struct {
			UID, PatchType string
			Allowed        bool
			Patch          []byte
		}
	}
	must(t, json.NewDecoder(answer.Body).Decode(&out))
	if r := out.Response; out.APIVersion != "admission.k8s.io/v1beta1" || out.Kind != "AdmissionReview" || r.UID != "705ab4f5" || !r.Allowed || r.PatchType != "JSONPatch" || !strings.Contains(string(r.Patch), "/spec/taints/0") {
		t.Errorf("the answer is %+v, patch %s", out, r.Patch)
	}
}

// failedOpen are the lines of an API server's log that tell why calls of webhooks failed.
func failedOpen(log string) string {
	var why strings.Builder
	for line := range strings.Lines(log) {
		if strings.Contains(line, "failing open") {
			why.WriteString(line)
		}
	}
	return why.String()
}

// Certificates that live for half a minute, made by another replica than the one that
// answers, while writers write without a pause: no call of the API server fails.
func TestWebhookRotatesUnderLoad(t *testing.T) {
	w := startWebhook(t, "--certificate-lifetime", "30s") // patient: what fails here fails by its certificate
	nodes := []string{"lost-1", "lost-2", "lost-3", "lost-4"}
	for _, node := range nodes {
		lost(t, node)
	}
	w.shield(t, nodes...)
	w.taints(t, "lost-1", false)
	failOpen := func() float64 {
		text, err := c.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(patient(t))
		must(t, err)
		return counted(string(text), "apiserver_admission_webhook_fail_open_count", "gridmesh.io")
	}
	before := failOpen()
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	var writes, missed atomic.Int64
	ended := make(chan error, len(nodes))
	for _, node := range nodes {
		go func() {
			for ctx.Err() == nil {
				evicts, _, err := w.taint(ctx, node)
				if ctx.Err() != nil {
					break
				}
				if err != nil {
					ended <- err
					return
				}
				if writes.Add(1); evicts {
					missed.Add(1)
				}
			}
			ended <- nil
		}()
	}
	seen := map[string]bool{} // bundles, each of which is a step of a rotation
	took := wait.Eventually(t, func() error {
		seen[string(bundle(t))] = true
		if len(seen) < 7 {
			return fmt.Errorf("%d bundles were seen", len(seen))
		}
		return nil
	})
	cancel()
	for range nodes {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d writes in %s, over %d bundles", writes.Load(), took, len(seen))
	if n := failOpen() - before; n > 0 || missed.Load() > 0 || writes.Load() < 100 {
		t.Errorf("of %d writes %d were missed; %v calls failed:\n%s", writes.Load(), missed.Load(), n, failedOpen(c.APIServerLog()))
	}
}
