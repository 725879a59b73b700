package kubernetes

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gridmesh/gridmesh/admission/mutate"
	"github.com/gridmesh/gridmesh/admission/mutate/mutatetest"
	"github.com/gridmesh/gridmesh/admission/policy"
	"github.com/gridmesh/gridmesh/api/names"
)

// measuredWrites is of how many writes each figure is: by make test of three, which tells what is decided and
// not what it costs; SHIELD_WRITES (make shield-cost) has more.
func measuredWrites(t *testing.T) int {
	t.Helper()
	of := cmp.Or(os.Getenv("SHIELD_WRITES"), "3")
	n, err := strconv.Atoi(of)
	if err != nil || n < 1 {
		t.Fatalf("SHIELD_WRITES=%q: want a number of writes from 1", of)
	}
	return n
}

// measured is how long rehearsed writes take, as who writes sees it and as the API server says that
// its admission policies took of each.
func measured(t *testing.T, write func() error) string {
	t.Helper()
	took := make([]time.Duration, measuredWrites(t))
	before := inPolicies(t)
	for i := range took {
		start := time.Now()
		must(t, write())
		took[i] = time.Since(start)
	}
	of := (inPolicies(t) - before) / float64(len(took))
	slices.Sort(took)
	return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms, in policies %.2f ms", took[len(took)/2].Seconds()*1e3, took[len(took)*99/100].Seconds()*1e3, of*1e3)
}

var policySeconds = regexp.MustCompile(`^apiserver_admission_controller_admission_duration_seconds_sum\{name="(?:Mutating|Validating)AdmissionPolicy",operation="UPDATE",.*\} (\S+)\n$`)

// inPolicies are the seconds that the API server has spent in policies of updates.
func inPolicies(t *testing.T) (sum float64) {
	t.Helper()
	text, err := c.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(patient(t))
	must(t, err)
	for line := range strings.Lines(string(text)) { // an expression over all of them takes seconds
		if !strings.HasPrefix(line, "apiserver_admission_controller_") {
			continue
		}
		if m := policySeconds.FindStringSubmatch(line); m != nil {
			seconds, err := strconv.ParseFloat(m[1], 64)
			must(t, err)
			sum += seconds
		}
	}
	return sum
}

// What the policies cost is logged, not judged: a slice of 1000 endpoints is decided within
// CEL's budget, which is what fails here where it is not.
func TestWhatShieldPoliciesCost(t *testing.T) {
	ctx := patient(t)
	space(t)
	nodes, fallen := make([]string, 1000), []int(nil)
	for i := range nodes {
		nodes[i] = []string{mutatetest.Lost, mutatetest.Other}[i%2]
		if i%2 == 0 {
			fallen = append(fallen, i)
		}
	}
	large, err := c.Kube.DiscoveryV1().EndpointSlices(mutatetest.Namespace).Create(ctx, mutatetest.Slice(nodes...), metav1.CreateOptions{})
	must(t, err)
	down := mutatetest.Down(large.DeepCopy(), fallen...)
	down.ManagedFields = nil
	slicesOf := asWriter(t, mutate.Writers(mutate.EndpointSlices)[1]).DiscoveryV1().EndpointSlices(mutatetest.Namespace)
	writers := []kubernetes.Interface{asWriter(t, "system:node:a-1"), asWriter(t, mutate.Writers(mutate.Pods)[1])}
	var mark mutatetest.Case
	for _, tc := range mutatetest.Cases(time.Now()) {
		if tc.Resource() == mutate.Pods && tc.Name == "the mark" {
			mark = tc
		}
	}
	// Pods of a node that is not there are deleted within a minute.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: mutatetest.Lost}}
	_, err = create(t, node)
	must(t, err)
	t.Cleanup(func() { remove(t, node) })
	report := func(when string) {
		remove(t, mark.Old)
		stored, err := create(t, mark.Old)
		must(t, err)
		marked := mark.Next(stored, time.Now()).(*corev1.Pod)
		marked.ManagedFields, marked.ResourceVersion = nil, "" // the controller manager writes it as well, for no kubelet does
		for i, whose := range []string{"a kubelet's pod", "a marked pod"} {
			t.Logf("%-34s %s: %s", when, whose, measured(t, func() error {
				_, err := writers[i].CoreV1().Pods(mutatetest.Namespace).UpdateStatus(ctx, marked, rehearsed)
				return err
			}))
		}
		t.Logf("%-34s a slice of 1000: %s", when, measured(t, func() error {
			_, err := slicesOf.Update(ctx, down, rehearsed)
			return err
		}))
	}
	// Of a node without a kubelet no pod ends by itself.
	defer func() { remove(t, mark.Old) }()
	report("no policies")
	policies(t, policy.Shield(), policy.SecondLine())
	s := newShielding(t)
	s.put(nil)
	parameter(t, names.Shield, nil)
	time.Sleep(time.Second) // until the API server has seen that it is gone: nothing else tells
	report("policies, no table")
	s.put(nil)
	report("policies, another is shielded")
	many := map[string]string{mutatetest.Lost: inAnHour()}
	s.put(many)
	report("policies, its node is shielded")
	for i := range 1000 {
		many[fmt.Sprintf("node-%d", i)] = inAnHour()
	}
	s.put(many)
	report("policies, 1001 nodes are shielded")
	got, err := slicesOf.Update(ctx, down, rehearsed)
	must(t, err)
	if up := count(got); up != len(nodes) || got.ResourceVersion != large.ResourceVersion {
		t.Errorf("%d of %d endpoints are up, of version %s, stored is %s", up, len(nodes), got.ResourceVersion, large.ResourceVersion)
	}
}

func count(s *discoveryv1.EndpointSlice) (up int) {
	for _, e := range s.Endpoints {
		if *e.Conditions.Ready && *e.Conditions.Serving {
			up++
		}
	}
	return up
}
