package kubernetes

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/nftables"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// nodeEvents returns the Events of a reason about a node.
func nodeEvents(t *testing.T, node, reason string) []corev1.Event {
	t.Helper()
	list, err := c.Kube.CoreV1().Events("default").List(patient(t), metav1.ListOptions{
		FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + node + ",reason=" + reason,
	})
	must(t, err)
	return list.Items
}

// Somebody on the node has taken a port that Envoy needs, as a name server on
// 0.0.0.0:53 does. Envoy refuses the listener; everything else goes on, the
// Service is named wherever one would look, and when the port is free again
// the Service is served. Envoy has such a listener where it is alone.
func TestEnvoyRefusesAListener(t *testing.T) {
	leaks.None(t, c.Lab, leaks.Any)
	n := c.Nodes["a-1"]
	withFlags(t, n, "--datapath", "envoy")
	var taken net.PacketConn
	const port = 15353 // of no other test: Envoy drains a listener that is gone for ten minutes
	must(t, n.NS.Do(func() (err error) {
		taken, err = net.ListenPacket("udp4", "0.0.0.0:"+strconv.Itoa(port))
		return err
	}))
	a := deploy(t, "taken")
	_, err := c.Kubectl("patch", "service/taken", "--type=json", "-p", fmt.Sprintf(`[{"op": "replace", "path": "/spec/ports/1/port", "value": %d}]`, port))
	must(t, err)
	udp := func(i int) netip.AddrPort { return netip.AddrPortFrom(a.at(i).Addr(), port) }
	listener := "udp-" + udp(0).String()
	look := func(want bool) error {
		out, err := n.Run("status")
		has := strings.Contains(string(out), "refused") && strings.Contains(string(out), listener) && strings.Contains(string(out), "service default/taken")
		if err != nil || has != want {
			return fmt.Errorf("status names the listener: %v, want %v: %w\n%s", has, want, errors.Join(err), out)
		}
		return nil
	}
	wait.Eventually(t, func() error { return look(true) })
	if _, err := ask(a.ns(t, n.Name), "udp", udp(0)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("UDP with the port taken: %v, want connection refused", err)
	}
	for what, serves := range map[string]func() error{
		"TCP of the same Service": func() error { return second(ask(a.ns(t, n.Name), "tcp", a.at(0))) },
		"UDP over IPv6":           func() error { return second(ask(a.ns(t, n.Name), "udp", udp(1))) },
		"UDP of another node":     func() error { return second(ask(a.ns(t, "a-2"), "udp", udp(0))) },
	} {
		took := wait.Eventually(t, serves) // a node learns of the port when it does
		t.Logf("%s: served after %s", what, took)
	}
	wait.Eventually(t, func() error {
		events := nodeEvents(t, n.Name, "EnvoyRefusedResource")
		if len(events) != 1 || !strings.Contains(events[0].Message, "service default/taken") {
			return fmt.Errorf("%d Events: %v", len(events), events)
		}
		return nil
	})
	must(t, taken.Close())
	took := wait.Eventually(t, func() error {
		if err := look(false); err != nil {
			return err
		}
		_, err := ask(a.ns(t, n.Name), "udp", udp(0))
		return err
	})
	t.Logf("served %s after the port was free", took)
	if events := nodeEvents(t, n.Name, "EnvoyRefusedResource"); len(events) != 1 || events[0].Count != 1 {
		t.Errorf("the retries of Envoy wrote Events too: %v", events)
	}
}

// An agent that does not start says so where people in the cloud look, and a
// crash loop does not fill the API server.
func TestRefusalToStartIsAnEvent(t *testing.T) {
	n := c.Nodes["c-2"]
	conn, err := n.NS.NFT()
	must(t, err)
	table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "kube-proxy"})
	conn.AddChain(&nftables.Chain{Table: table, Name: "services"})
	must(t, conn.Flush())
	t.Cleanup(func() { conn.DelTable(table); must(t, conn.Flush()) })
	for range 3 {
		wantRefused(t, extraAgent(t, n), "nft delete table ip kube-proxy")
	}
	events := nodeEvents(t, n.Name, "GridmeshRefusesToStart")
	found := 0
	for _, e := range events {
		if strings.Contains(e.Message, "nft delete table ip kube-proxy") {
			found++
			if e.Count != 1 {
				t.Errorf("counted %d times within six minutes", e.Count)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d Events for three starts: %v", found, events)
	}
}

func second[T any](_ T, err error) error { return err }
