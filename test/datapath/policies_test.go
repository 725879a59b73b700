package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// enforce stands for a NetworkPolicy engine on a node, until the end of the test: a
// chain in FORWARD, named as Calico's, that lets pass what belongs to open connections,
// as engines do, and drops what matches. Another name is another table.
func enforce(t *testing.T, ns *netlab.NS, name string, drops ...[]expr.Any) {
	t.Helper()
	conn, err := ns.NFT()
	must(t, err)
	table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: name})
	chain := conn.AddChain(&nftables.Chain{Table: table, Name: "cali-FORWARD", Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter})
	rule := func(match []expr.Any, verdict expr.VerdictKind) {
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(slices.Clone(match), &expr.Counter{}, &expr.Verdict{Kind: verdict})})
	}
	rule([]expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED), Xor: make([]byte, 4)},
		&expr.Cmp{Register: 1, Op: expr.CmpOpNeq, Data: make([]byte, 4)},
	}, expr.VerdictAccept)
	for _, match := range drops {
		rule(match, expr.VerdictDrop)
	}
	must(t, conn.Flush())
	t.Cleanup(func() { conn.DelTable(table); must(t, conn.Flush()) })
}

// matchFrom and matchTo match addresses of packets, of either family.
func matchFrom(op expr.CmpOp, ip netip.Addr) []expr.Any { return matchAddress(op, ip, 12, 8) }

func matchTo(ip netip.Addr) []expr.Any { return matchAddress(expr.CmpOpEq, ip, 16, 24) }

func matchAddress(op expr.CmpOp, ip netip.Addr, at4, at6 uint32) []expr.Any {
	family, at := byte(unix.NFPROTO_IPV4), at4
	if ip.Is6() {
		family, at = unix.NFPROTO_IPV6, at6
	}
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Register: 1, Op: expr.CmpOpEq, Data: []byte{family}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: at, Len: uint32(ip.BitLen() / 8)},
		&expr.Cmp{Register: 1, Op: op, Data: ip.AsSlice()},
	}
}

// matchLink matches the link that packets come by or leave by.
func matchLink(key expr.MetaKey, link string) []expr.Any {
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, link)
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Register: 1, Op: expr.CmpOpEq, Data: name}}
}

// ward is a node with two pods that dial, of which policies let one alone reach the
// pods of a Service: one is on the node, one on another of its unit.
type ward struct {
	*edge.Node
	f           *fleet
	far         string
	friend, foe *netlab.Pod
	port        uint16
}

var nextNodePort uint16 = 30180

func newWard(t *testing.T, node, far string) *ward {
	f := deploy(t, "ward-"+node, `["unit"]`)
	nextNodePort++
	d := &ward{Node: named(t, node), f: f, far: far, port: nextNodePort}
	for name, pod := range map[string]**netlab.Pod{"friend": &d.friend, "foe": &d.foe} {
		p, err := d.AddPod(name + "-" + node)
		must(t, err)
		t.Cleanup(func() { must(t, p.Remove()) })
		*pod = p
	}
	return d
}

// serve makes these nodes' pods all endpoints there are.
func (d *ward) serve(t *testing.T, nodes ...string) {
	d.f.ends = nil
	for _, n := range nodes {
		d.f.ends = append(d.f.ends, backend{d.f.pods[n].IP, n}, backend{d.f.pods[n].IP6, n})
	}
	w.state.service(d.f.service)
	file := "service-" + d.f.name
	w.state.files[file] = strings.NewReplacer("spec:\n", "spec:\n  type: NodePort\n", "port: 80, protocol: TCP}", fmt.Sprintf("port: 80, protocol: TCP, nodePort: %d}", d.port)).Replace(w.state.files[file])
	must(t, w.state.write())
}

// way is where a pod dials.
type way struct {
	network string
	to      netip.AddrPort
}

// ways are all that lead to the Service from a pod of the node.
func (d *ward) ways(nodes ...string) (list []way) {
	for _, network := range []string{"tcp", "udp"} {
		list = append(list, way{network, d.f.at(0)}, way{network, d.f.at(1)})
		for _, n := range nodes {
			p := d.f.pods[n]
			list = append(list, way{network, netip.AddrPortFrom(p.IP, 8080)}, way{network, netip.AddrPortFrom(p.IP6, 8080)})
		}
	}
	return append(list, way{"tcp", netip.AddrPortFrom(d.IP, d.port)})
}

// silence is when a packet was dropped: long after those who may are answered, also
// where a first packet was lost.
const silence = 1500 * time.Millisecond

// held wants the friend answered on every way, and the foe on none.
func (d *ward) held(t *testing.T, nodes ...string) {
	t.Helper()
	var wg sync.WaitGroup
	for _, way := range d.ways(nodes...) {
		if way.to.Addr() != d.IP { // through a node port others see the node
			wait.Eventually(t, func() error {
				_, err := edge.Ask(d.friend.NS, way.network, way.to, time.Second)
				return wrap(fmt.Sprintf("who may, %s to %s", way.network, way.to), err)
			})
		}
		for range 6 { // of two endpoints one is as good as never left out
			wg.Go(func() {
				if a, err := edge.Ask(d.foe.NS, way.network, way.to, silence); err == nil {
					t.Errorf("%s to %s: who may not was answered by %s, which saw %s", way.network, way.to, a.Name, a.Client)
				}
			})
		}
	}
	wg.Wait()
}

// form is how an engine enforces: the nodes whose pods are endpoints, where it
// drops, and what.
type form struct {
	ends []string
	at   string
	drop [][]expr.Any
}

// policies are the forms that there are, all of them in FORWARD.
func (d *ward) policies() map[string]form {
	own, far := d.f.pods[d.Name], d.f.pods[d.far]
	list := map[string]form{
		"by address, who dials":      {[]string{d.Name, d.far}, d.Name, nil},
		"by address, who is dialled": {[]string{d.Name}, d.Name, nil},
		"on the other node":          {[]string{d.far}, d.far, nil},
	}
	if d.Network == netlab.Routed { // what comes over a bridge comes by it, whatever its port
		list["by link, who dials"] = form{[]string{d.Name, d.far}, d.Name, nil}
		list["by link, who is dialled"] = form{[]string{d.Name}, d.Name, nil}
	}
	drop := func(what string, match ...[]expr.Any) {
		if f, is := list[what]; is {
			f.drop = append(f.drop, slices.Concat(match...))
			list[what] = f
		}
	}
	for _, ip := range []func(*netlab.Pod) netip.Addr{
		func(p *netlab.Pod) netip.Addr { return p.IP },
		func(p *netlab.Pod) netip.Addr { return p.IP6 },
	} {
		for _, end := range []*netlab.Pod{own, far} {
			drop("by address, who dials", matchFrom(expr.CmpOpEq, ip(d.foe)), matchTo(ip(end)))
			drop("by link, who dials", matchLink(expr.MetaKeyIIFNAME, d.foe.Port()), matchTo(ip(end)))
		}
		stranger := matchFrom(expr.CmpOpNeq, ip(d.friend))
		drop("by address, who is dialled", matchTo(ip(own)), stranger)
		drop("by link, who is dialled", matchLink(expr.MetaKeyOIFNAME, own.Port()), stranger)
		drop("on the other node", matchTo(ip(far)), stranger)
	}
	return list
}

// wards are a routed node, a bridged one, and one whose bridge keeps its netfilter.
var wards = map[string]string{"a-1": "a-2", "a-2": "a-1", "b-3": "b-1"}

// obeying restarts a node's agent as one that obeys policies, until the end of the test.
func obeying(t *testing.T, e *edge.Node) {
	t.Helper()
	twoPaths(t, e, "--network-policies=refuse")
}

// With auto nothing that a policy engine forbids gets through, on whichever way it is
// dialled and however the engine looks at it; what it allows does.
func TestPoliciesHold(t *testing.T) {
	for name, far := range wards {
		t.Run(name, func(t *testing.T) {
			d := newWard(t, name, far)
			enforce(t, d.NS, "engine") // engines are on every node
			obeying(t, d.Node)
			for what, form := range d.policies() {
				t.Run(what, func(t *testing.T) {
					d.serve(t, form.ends...)
					for _, to := range []netip.AddrPort{d.f.at(0), d.f.at(1)} {
						d.sees(t, to, form.ends)
					}
					enforce(t, named(t, form.at).NS, "policy", form.drop...)
					d.held(t, form.ends...)
				})
			}
		})
	}
}

// sees waits until a Service is answered by these nodes' pods, by all of them and by
// no others.
func (d *ward) sees(t *testing.T, to netip.AddrPort, nodes []string) {
	t.Helper()
	wait.Eventually(t, func() error {
		seen := map[string]bool{}
		for range 20 {
			a, err := edge.Ask(d.foe.NS, "tcp", to, time.Second)
			if err != nil {
				return err
			}
			seen[strings.TrimPrefix(a.Name, d.f.name+"-")] = true
		}
		for _, n := range nodes {
			if !seen[n] {
				return fmt.Errorf("%s is not among %v", n, seen)
			}
		}
		if len(seen) != len(nodes) {
			return fmt.Errorf("answered by %v, want %v", seen, nodes)
		}
		return nil
	})
}

// Somebody may not, and tries all the while: while an agent starts on a node that has
// policies and none of its rules, and while it is killed and comes back.
func TestPoliciesAreThereFirst(t *testing.T) {
	for name, far := range wards {
		t.Run(name, func(t *testing.T) {
			d := newWard(t, name, far)
			d.serve(t, name)
			enforce(t, d.NS, "policy", d.policies()["by address, who is dialled"].drop...)
			obeying(t, d.Node)
			d.held(t, name)
			d.Agent.Signal(syscall.SIGTERM)
			out, err := d.Run("cleanup")
			must(t, wrap(string(out), err))
			stop := d.tries(t)
			must(t, d.StartAgent())
			ready(t, d.Node)
			connected(t, d.Node)
			d.held(t, name)
			d.Agent.Kill()
			must(t, d.StartAgent())
			ready(t, d.Node)
			d.held(t, name)
			d.Envoy.Kill()
			d.held(t, name)
			must(t, d.StartEnvoy())
			ready(t, d.Node)
			d.held(t, name)
			stop()
		})
	}
}

// tries dials the Service from who may not, until stop, and wants no answer.
func (d *ward) tries(t *testing.T) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	var wg sync.WaitGroup
	var n int
	wg.Go(func() {
		for {
			for i := range d.f.ips {
				select {
				case <-done:
					return
				default:
				}
				n++
				if a, err := edge.Ask(d.foe.NS, "tcp", d.f.at(i), silence); err == nil {
					t.Errorf("who may not was answered by %s", a.Name)
				}
			}
			time.Sleep(2 * time.Millisecond)
		}
	})
	stop = sync.OnceFunc(func() { close(done); wg.Wait(); t.Logf("tried %d times", n) })
	t.Cleanup(stop)
	return stop
}

// An engine comes to a node that Envoy serves: who may is answered all the while, and
// keeps the connection that it has; who may not is answered no more within the minute
// in which the node is looked at, and then for good. In that minute another node's agent is away, and
// its Envoy is back at once when that is.
func TestPoliciesThatComeWhileConnectionsRun(t *testing.T) {
	d := newWard(t, "a-1", "a-2")
	d.serve(t, d.Name)
	obeying(t, d.Node)
	d.sees(t, d.f.at(0), []string{d.Name})
	kept := askAgain(t, d.friend.NS, d.f.service)
	must(t, kept())

	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
			}
			if _, err := edge.Ask(d.friend.NS, "tcp", d.f.at(0), answers); err != nil {
				t.Errorf("who may: %v", err)
			}
		}
	})
	stop := sync.OnceFunc(func() { close(done); wg.Wait() })
	t.Cleanup(stop)
	back := awayForLong(t, named(t, "b-1"))
	enforce(t, d.NS, "policy", d.policies()["by address, who is dialled"].drop...)
	if _, err := edge.Ask(d.foe.NS, "tcp", d.f.at(0), answers); err != nil {
		t.Errorf("the policy holds at once: %v; then docs/limits.md is out of date", err)
	}
	took := wait.Within(t, 5*75*time.Second, func() error {
		if a, err := edge.Ask(d.foe.NS, "tcp", d.f.at(0), silence); err == nil {
			return errors.New("who may not is answered by " + a.Name)
		}
		return nil
	})
	t.Logf("obeyed after %s", took)
	tried := d.tries(t)
	d.held(t, d.Name)
	tried()
	must(t, kept())
	stop()
	back()
}
