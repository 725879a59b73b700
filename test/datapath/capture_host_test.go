package datapath

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// A pod reaches an endpoint that runs in the network of its own node, as the
// API server does on nodes that run one: the endpoint sees the pod's address,
// and its answer finds Envoy, and not the pod.
func TestEndpointInTheNodesOwnNetwork(t *testing.T) {
	leaks.None(t, w.lab, leaks.Any)
	f := deploy(t, "pods", `["unit"]`)
	f.served(t)
	for name, local := range map[string]string{
		`topologyKeys: '["kubernetes.io/hostname"]'`: "Cluster",
		"note: internalTrafficPolicy Local":          "Local",
	} {
		host := service{name: fmt.Sprint("hostnet-", strings.ToLower(local)), ips: ownIPs(t)}
		var apps []*edge.App
		for _, n := range w.lab.Nodes() {
			app, err := edge.StartApp(n.NS, host.name+"-"+n.Name, 8080)
			must(t, err)
			apps = append(apps, app)
			t.Cleanup(app.Stop)
			host.ends = append(host.ends, backend{n.IP, n.Name}, backend{n.IP6, n.Name})
		}
		w.state.service(host)
		file := "service-" + host.name
		w.state.files[file] = strings.Replace(w.state.files[file], "spec:\n", "  annotations: {"+name+"}\nspec:\n  internalTrafficPolicy: "+local+"\n", 1)
		must(t, w.state.write())
		t.Cleanup(func() { w.state.remove(host.name); must(t, w.state.write()) })
		for _, c := range f.clients() {
			for i := range host.ips {
				t.Run(fmt.Sprintf("%s, %s to %s", local, c.name, host.ips[i]), func(t *testing.T) {
					wait.Eventually(t, func() error { return notRefused(c, host.at(i)) })
					for range 3 {
						a, err := edge.Ask(c.ns, "tcp", host.at(i), answers)
						if err != nil {
							t.Fatal(err)
						}
						if want := host.name + "-" + c.node.Name; a.Name != want {
							t.Errorf("answered by %s, want %s", a.Name, want)
						}
						if a.Took > firstPacket {
							t.Errorf("answered after %s", a.Took)
						}
						if c.pod && a.Client != c.ip[i].String() {
							t.Errorf("the endpoint saw %s, the pod is %s", a.Client, c.ip[i])
						}
					}
					must(t, edge.Transfer(c.ns, host.at(i), megabyte, time.Minute))
				})
			}
		}
		for _, app := range apps {
			app.Stop()
		}
	}
}

// notRefused waits for what serves an address, and not for what answers there.
func notRefused(c client, to netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(context.Background(), answers)
	defer cancel()
	conn, err := c.ns.Dial(ctx, "tcp", to.String())
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// A frontend loses its endpoints: who has a connection open keeps it, on the
// host as in a pod, and nobody new is let in.
func TestOpenConnectionsOfTheHostLiveOn(t *testing.T) {
	t.Run("envoy", func(t *testing.T) { openConnectionsLiveOn(t, "open", `["unit"]`) })
	t.Run("auto", func(t *testing.T) {
		for _, e := range w.nodes {
			twoPaths(t, e)
		}
		t.Run("by Envoy", func(t *testing.T) { openConnectionsLiveOn(t, "open-keys", `["unit"]`) })
		t.Run("by the kernel", func(t *testing.T) { openConnectionsLiveOn(t, "open-none", "") })
	})
}

func openConnectionsLiveOn(t *testing.T, name, keys string) {
	t.Helper()
	if keys != "" { // else endpoints of all units are its own
		leaks.None(t, w.lab, leaks.Any)
	}
	f := deploy(t, name, keys)
	f.served(t)
	type open struct {
		client
		conn net.Conn
		r    *bufio.Reader
	}
	var list []open
	for _, c := range f.clients() {
		for i := range f.ips {
			ctx, cancel := context.WithTimeout(context.Background(), answers)
			conn, err := c.ns.Dial(ctx, "tcp", f.at(i).String())
			cancel()
			must(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			list = append(list, open{c, conn, bufio.NewReader(conn)})
		}
	}
	ask := func(o open) error {
		_ = o.conn.SetDeadline(time.Now().Add(answers))
		if _, err := fmt.Fprintln(o.conn, "who"); err != nil {
			return err
		}
		_, err := o.r.ReadString('\n')
		return err
	}
	for _, o := range list {
		must(t, ask(o))
	}
	f.ends = nil
	w.state.service(f.service)
	must(t, w.state.write())
	for _, c := range f.clients() {
		for i := range f.ips {
			wait.Eventually(t, func() error {
				if err := notRefused(c, f.at(i)); !errors.Is(err, syscall.ECONNREFUSED) {
					return fmt.Errorf("%s is not refused: %w", c.name, err)
				}
				return nil
			})
		}
	}
	for _, o := range list {
		if err := ask(o); err != nil {
			t.Errorf("%s, which had %s open: %v", o.name, o.conn.RemoteAddr(), err)
		}
	}
}
