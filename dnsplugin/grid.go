package dnsplugin

import (
	"context"
	"fmt"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metrics"
	"github.com/coredns/coredns/plugin/pkg/dnsutil"
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/coredns/coredns/plugin/pkg/nonwriter"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/gridmesh/gridmesh/dnsplugin/answer"
	"github.com/gridmesh/gridmesh/topology"
)

// Grid is the plugin.
type Grid struct {
	Next  plugin.Handler
	Zones []string
	Fall  fall.F

	cfg      config
	feed     feed
	recalled time.Time // of the snapshot that was read at the start
	answers  answer.Config
	viewer   *topology.Viewer // one owner: publish
	lost     bool             // this node is not in the data; same owner
	asking   atomic.Int64     // questions of others under way
	now      atomic.Pointer[state]
}

// state is what is answered from.
type state struct {
	index *answer.Index
	from  origin
	at    time.Time
}

// origin is where the data is from.
type origin string

const (
	fromSnapshot origin = "snapshot"
	fromSource   origin = "source"
)

// publish makes a snapshot what is answered from.
func (g *Grid) publish(s *topology.Snapshot, from origin) {
	if g.viewer == nil {
		g.viewer = topology.NewViewer(g.cfg.node, g.cfg.view)
	}
	last := state{index: answer.New(g.answers)}
	if now := g.now.Load(); now != nil {
		last = *now
	}
	next := &state{index: last.index.Next(s, g.viewer.See(s)), from: from, at: time.Now()}
	g.now.Store(next)
	if from != last.from {
		debug.FreeOSMemory() // what the first data was decoded from
	}
	services, hosts := next.index.Len()
	if _, ok := s.Nodes.Get(g.cfg.node); ok == g.lost {
		if g.lost = !ok; g.lost {
			log.Warningf("node %q is not in the data: it is in no unit, and names of grids are empty; mend the option node, or wait for the Node", g.cfg.node)
		}
	}
	if from != last.from {
		log.Infof("ready: %d Services and %d names below them, from the %s", services, hosts, g.origin(from))
	}
	entries.WithLabelValues("service").Set(float64(services))
	entries.WithLabelValues("host").Set(float64(hosts))
	updated.Set(float64(next.at.UnixMilli()) / 1000)
}

// origin says in words where the data is from.
func (g *Grid) origin(from origin) string {
	if from == fromSnapshot {
		return fmt.Sprintf("snapshot %s of %s, until the source %s answers", g.cfg.snapshot, g.recalled.UTC().Format(time.RFC3339), g.cfg.source)
	}
	return "source " + g.cfg.source.String()
}

// Name implements plugin.Handler.
func (g *Grid) Name() string { return pluginName }

// Ready implements ready.Readiness: names resolve, from the source or from the
// last snapshot.
func (g *Grid) Ready() bool { return g.now.Load() != nil }

// ServeDNS implements plugin.Handler.
func (g *Grid) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	req := request.Request{W: w, Req: r}
	qname := req.Name()
	zone := plugin.Zones(g.Zones).Matches(qname)
	now := g.now.Load()
	if zone == "" || now == nil || req.QClass() != dns.ClassINET {
		return plugin.NextOrFailure(pluginName, g.Next, ctx, w, r)
	}
	m := &dns.Msg{}
	kind := g.fill(m, now.index, &req, zone)
	if kind == answer.Absent {
		if theirs := g.others(ctx, w, r); theirs != nil {
			if kind = g.catchUp(m, now, &req, zone, theirs); kind == answer.Absent {
				requests.WithLabelValues(metrics.WithServer(ctx), "passed").Inc()
				return dns.RcodeSuccess, w.WriteMsg(theirs)
			}
		}
	}
	if kind == answer.Foreign || kind == answer.Unknown && g.Fall.Through(qname) {
		requests.WithLabelValues(metrics.WithServer(ctx), "passed").Inc()
		return plugin.NextOrFailure(pluginName, g.Next, ctx, w, r)
	}
	m.SetReply(r)
	m.Authoritative = true
	result := "data"
	if kind != answer.Known {
		m.Rcode, result = dns.RcodeNameError, "nxdomain"
	}
	if len(m.Answer) == 0 {
		if result == "data" {
			result = "nodata"
		}
		m.Ns = []dns.RR{g.soa(zone, now)}
	}
	requests.WithLabelValues(metrics.WithServer(ctx), result).Inc()
	if err := w.WriteMsg(m); err != nil {
		return dns.RcodeServerFailure, err
	}
	return dns.RcodeSuccess, nil
}

const (
	// patience is how long others may take to tell of a name that no Service has.
	patience = time.Second
	// lag is how much later the data here may know a Service than others do.
	lag = 500 * time.Millisecond
	// mostAsking bounds what waits for others that are silent.
	mostAsking = 512
)

// others asks the next plugins, and returns nil where they cannot answer soon.
// A name in a client's search list that nobody tells of would else end the
// search: musl never takes a failure for an answer, and glibc waits for one.
func (g *Grid) others(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) *dns.Msg {
	if g.Next == nil {
		return nil
	}
	if g.asking.Add(1) > mostAsking {
		g.asking.Add(-1)
		return nil
	}
	done := make(chan *dns.Msg, 1)
	go func() {
		reply := nonwriter.New(w)
		defer func() {
			if fault := recover(); fault != nil { // the server recovers in its own goroutine alone
				log.Errorf("a plugin behind grid failed: %v", fault)
				reply.Msg = nil
			}
			g.asking.Add(-1)
			done <- reply.Msg
		}()
		_, _ = g.Next.ServeDNS(ctx, reply, r.Copy())
	}()
	select {
	case m := <-done:
		if m == nil || m.Rcode == dns.RcodeServerFailure || m.Rcode == dns.RcodeRefused {
			return nil
		}
		return m
	case <-time.After(patience):
		return nil
	}
}

// catchUp is for a Service that others know and the data here does not: it may
// be a grid's, just made, whose endpoints others do not tell apart by unit. It
// waits for newer data, and answers from them where they know the name.
func (g *Grid) catchUp(m *dns.Msg, old *state, req *request.Request, zone string, theirs *dns.Msg) answer.Kind {
	if len(theirs.Answer) == 0 || !dns.IsSubDomain("svc."+zone, req.Name()) {
		return answer.Absent
	}
	for begin := time.Now(); ; time.Sleep(lag / 100) {
		if now := g.now.Load(); now != old {
			if kind := g.fill(m, now.index, req, zone); kind != answer.Absent {
				return kind
			}
			old = now
		}
		if time.Since(begin) > lag {
			return answer.Absent
		}
	}
}

// fill puts the answer into m and tells what is known of the name.
func (g *Grid) fill(m *dns.Msg, x *answer.Index, req *request.Request, zone string) answer.Kind {
	if req.QType() == dns.TypePTR {
		return g.pointer(m, x, req)
	}
	suffix := "svc." + zone
	relative, ok := strings.CutSuffix(req.Name(), "."+suffix)
	if !ok {
		if below, ok := strings.CutSuffix(req.Name(), "."+zone); ok && !reverse(zone) {
			return x.Beside(below)
		}
		return answer.Foreign
	}
	a := x.Lookup(relative, typeOf(req.QType()))
	for _, ip := range a.Addrs {
		m.Answer = append(m.Answer, g.address(req.QName(), ip))
	}
	g.targets(m, req.QName(), suffix, a.Targets)
	return a.Kind
}

// targets puts SRV records and their addresses into m. An endpoint of two
// families is one target, as the kubernetes plugin has it.
func (g *Grid) targets(m *dns.Msg, qname, suffix string, list []answer.Target) {
	weight := uint16(max(1, 100/max(1, len(list))))
	type port struct {
		name string
		port uint16
	}
	ports, addrs := map[port]bool{}, map[string]bool{}
	for _, t := range list {
		target := t.Name + "." + suffix
		if key := (port{target, t.Port}); !ports[key] {
			ports[key] = true
			m.Answer = append(m.Answer, &dns.SRV{Hdr: g.header(qname, dns.TypeSRV), Weight: weight, Port: t.Port, Target: target})
		}
		for _, ip := range t.Addrs {
			if key := target + ip.String(); !addrs[key] {
				addrs[key] = true
				m.Extra = append(m.Extra, g.address(target, ip))
			}
		}
	}
}

// pointer answers PTR where the cluster's Services are answered, for addresses
// that are known.
func (g *Grid) pointer(m *dns.Msg, x *answer.Index, req *request.Request) answer.Kind {
	ip, err := netip.ParseAddr(dnsutil.ExtractAddressFromReverse(req.Name()))
	if err != nil {
		return answer.Foreign
	}
	kind := answer.Foreign
	for _, name := range x.Pointers(ip) {
		m.Answer = append(m.Answer, &dns.PTR{Hdr: g.header(req.QName(), dns.TypePTR), Ptr: name + ".svc." + g.forward()})
		kind = answer.Known
	}
	return kind
}

// forward is the zone that names are in: the first that is not a reverse one.
func (g *Grid) forward() string {
	for _, z := range g.Zones {
		if !reverse(z) {
			return z
		}
	}
	return "cluster.local."
}

func reverse(zone string) bool {
	return dns.IsSubDomain("in-addr.arpa.", zone) || dns.IsSubDomain("ip6.arpa.", zone)
}

func typeOf(qtype uint16) answer.Type {
	switch qtype {
	case dns.TypeA:
		return answer.A
	case dns.TypeAAAA:
		return answer.AAAA
	case dns.TypeSRV:
		return answer.SRV
	}
	return answer.Other
}

func (g *Grid) header(name string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: g.cfg.ttl}
}

func (g *Grid) address(name string, ip netip.Addr) dns.RR {
	if ip.Is4() {
		return &dns.A{Hdr: g.header(name, dns.TypeA), A: ip.AsSlice()}
	}
	return &dns.AAAA{Hdr: g.header(name, dns.TypeAAAA), AAAA: ip.AsSlice()}
}

// soa has the form of the kubernetes plugin's.
func (g *Grid) soa(zone string, now *state) dns.RR {
	return &dns.SOA{
		Hdr: g.header(zone, dns.TypeSOA), Ns: dnsutil.Join("ns.dns", zone), Mbox: dnsutil.Join("hostmaster", zone),
		Serial: uint32(now.at.Unix()), Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: g.cfg.ttl,
	}
}
