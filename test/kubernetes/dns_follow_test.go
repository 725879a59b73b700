package kubernetes

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// sleepers are a pod that is never ready, and headless Services that have it,
// with and without publishNotReadyAddresses.
const sleepers = `
{apiVersion: v1, kind: Pod, metadata: {name: sleeper, labels: {app: sleeper}}, spec: {nodeName: a-1, terminationGracePeriodSeconds: 1, containers: [{name: app, image: gridmesh.test/app, readinessProbe: {tcpSocket: {port: 1}, periodSeconds: 1}}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: quiet, labels: {superedge.io/grid-uniq-key: site}, annotations: {topologyKeys: '["site"]'}}, spec: {clusterIP: None, selector: {app: sleeper}, ports: [{name: main, port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: loud, labels: {superedge.io/grid-uniq-key: site}, annotations: {topologyKeys: '["site"]'}}, spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {app: sleeper}, ports: [{name: main, port: 80}]}}
`

// cached is longer than the cache of deploy/dns.yaml keeps an answer of the
// plugin grid, which is 2 s.
const cached = 5 * time.Second

// What changes in the cluster is what names stand for, through the cache of
// the Corefile of deploy/, though each name was asked for just before, and
// logs what each took: the cache may keep an answer for 2 s.
func TestNamesFollow(t *testing.T) {
	upstreamDNS(t)
	inUnits(t, map[string]string{"a-1": "north", "b-1": "south"})
	controller(t)
	nodeDNS(t)
	from := c.Nodes["a-1"].NS
	ask := func(name string, qtype uint16) (string, error) {
		m, err := edge.Exchange(from, "udp", local, new(dns.Msg).SetQuestion(name+".default.svc.cluster.local.", qtype))
		if err != nil {
			return "", err
		}
		list := []string{dns.RcodeToString[m.Rcode]}
		for _, rr := range m.Answer {
			list = append(list, strings.TrimPrefix(rr.String(), rr.Header().String()))
		}
		slices.Sort(list[1:])
		return strings.Join(list, " "), nil
	}
	// becomes waits for an answer, and tells how long it took.
	becomes := func(what, name string, qtype uint16, want string) {
		t.Helper()
		took := wait.Eventually(t, func() error {
			got, err := ask(name, qtype)
			if err == nil && got != want {
				err = fmt.Errorf("%s: %s is %q, want %q", what, name, got, want)
			}
			return err
		})
		t.Logf("%s: %s", what, took.Round(time.Millisecond))
	}
	ipOf := func(pod string) (ip string) {
		t.Helper()
		wait.Eventually(t, func() error {
			p, err := c.Kube.CoreV1().Pods("default").Get(patient(t), pod, metav1.GetOptions{})
			if err == nil && (p.DeletionTimestamp != nil || p.Status.PodIP == "" || p.Status.ContainerStatuses[0].State.Running == nil) {
				err = fmt.Errorf("%s does not run", pod)
			}
			if err == nil {
				ip = p.Status.PodIP
			}
			return err
		})
		return ip
	}

	// Names that do not exist yet are asked for, and denied, by grid and by the
	// cluster's DNS; then they are made.
	for _, name := range []string{"late", "db-0.db-svc", "db-svc"} {
		becomes("not made yet", name, dns.TypeA, "NXDOMAIN")
	}
	applied(t, "{apiVersion: v1, kind: Service, metadata: {name: late}, spec: {ports: [{port: 80}]}}", "service/late")
	late, err := c.Kubectl("get", "service", "late", "-o", "jsonpath={.spec.clusterIP}")
	must(t, err)
	becomes("a Service that was denied is made", "late", dns.TypeA, "NOERROR "+late)
	applied(t, strings.NewReplacer("NAME", "db", "VERSION", "1").Replace(dnsGrids), "statefulsetgrid/db", "servicegrid/db", "servicegrid/front")
	allReady(t, "statefulsetgrids", "db", 2)
	north := ipOf("db-north-0")
	becomes("a set that was denied is made", "db-0.db-svc", dns.TypeA, "NOERROR "+north)
	becomes("its headless Service", "db-svc", dns.TypeA, "NOERROR "+north)

	_, err = c.Kubectl("delete", "pod", "db-north-0", "--wait=true")
	must(t, err)
	again := ipOf("db-north-0")
	if again == north {
		t.Logf("the new pod has the address of the old, %s", again)
	}
	becomes("a pod is replaced", "db-0.db-svc", dns.TypeA, "NOERROR "+again)

	// Who asks but now and then is not told what was: the cache holds answers
	// of long ago for when the cloud is away.
	_, err = c.Kubectl("delete", "pod", "db-north-0", "--wait=true")
	must(t, err)
	again = ipOf("db-north-0")
	becomes("a pod is replaced, by a name that nobody has asked for", "db-north-0.db-svc", dns.TypeA, "NOERROR "+again)
	time.Sleep(cached)
	for _, name := range []string{"db-0.db-svc", "db-svc"} {
		if got, err := ask(name, dns.TypeA); err != nil || got != "NOERROR "+again {
			t.Errorf("the first answer for %s, %s after its pod was replaced: %s, %v; want %s", name, cached, got, err, again)
		}
	}

	label(t, "a-1", "south") // its own pod goes with the node's label
	south := ipOf("db-south-0")
	becomes("the node is in another unit", "db-0.db-svc", dns.TypeA, "NOERROR "+south)
	label(t, "a-1", "")
	becomes("the node is in no unit", "db-svc", dns.TypeA, "NOERROR")
	becomes("the node is in no unit", "db-0.db-svc", dns.TypeA, "NOERROR")
	becomes("full names resolve all the same", "db-south-0.db-svc", dns.TypeA, "NOERROR "+south)
	label(t, "a-1", "north")
	becomes("the node is back", "db-0.db-svc", dns.TypeA, "NOERROR "+ipOf("db-north-0"))

	applied(t, sleepers, "pod/sleeper", "service/quiet", "service/loud")
	sleeper := ipOf("sleeper")
	becomes("a pod that is not ready, published", "loud", dns.TypeA, "NOERROR "+sleeper)
	becomes("a pod that is not ready", "quiet", dns.TypeA, "NXDOMAIN")

	_, err = c.Kubectl("delete", "statefulsetgrid/db", "--wait=true")
	must(t, err)
	_, err = c.WaitPods(patient(t), "default", "app=db", 0)
	must(t, err)
	becomes("the set is deleted", "db-svc", dns.TypeA, "NXDOMAIN")
	becomes("the set is deleted", "db-0.db-svc", dns.TypeA, "NXDOMAIN")
	_, err = c.Kubectl("delete", "servicegrid/db", "service/late", "--wait=true")
	must(t, err)
	becomes("the Service is deleted", "late", dns.TypeA, "NXDOMAIN")
	becomes("the ServiceGrid is deleted", "db-svc", dns.TypeA, "NXDOMAIN")
}
