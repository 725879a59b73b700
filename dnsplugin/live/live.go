// Package live is the CoreDNS plugin "live": /livez over HTTP, which answers only
// if the server does: each request is a question to every address of its server
// block, over UDP as clients ask, and over TCP where that is lost. A liveness probe
// that asks a process whether it runs restarts none that serves nobody.
package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/coredns/coredns/plugin/pkg/reuseport"
	"github.com/miekg/dns"

	"github.com/gridmesh/gridmesh/internal/run"
)

const pluginName = "live"

// label is what is asked for, right below the zone of the server block: below a
// common name another block could be nearer, and be asked instead. The question goes
// the way of all others, and is answered here: by no cloud, and by no cache
// (CacheBypassZones).
const label = "live--gridmesh."

const (
	// askTimeout is how long an address may take to answer over UDP, and then over
	// TCP: together less than the probe of deploy/ waits.
	askTimeout = 2 * time.Second
	udpTries   = 4
)

var log = clog.NewWithPlugin(pluginName)

func init() { plugin.Register(pluginName, setup) } // CoreDNS's way

func setup(c *caddy.Controller) error {
	address, err := parse(c)
	if err != nil {
		return plugin.Error(pluginName, err)
	}
	cfg := dnsserver.GetConfig(c)
	p := &probe{address: address, name: nameIn(cfg.Zone), servers: func() []string { return listening(cfg.ListenHosts, cfg.Port) }}
	for _, zone := range plugin.OriginsFromArgsOrServerBlock(nil, c.ServerBlockKeys) {
		p.names = append(p.names, nameIn(zone))
	}
	c.OnStartup(p.start)
	c.OnRestart(p.stop)
	c.OnRestartFailed(p.start)
	c.OnFinalShutdown(p.stop)
	cfg.AddPlugin(func(next plugin.Handler) plugin.Handler {
		p.next = next
		return p
	})
	return nil
}

// parse reads "live ADDRESS".
func parse(c *caddy.Controller) (address string, err error) {
	for c.Next() {
		args := c.RemainingArgs()
		if len(args) != 1 || address != "" {
			return "", c.Err("give one address of this host to answer at, as live 127.0.0.1:8192")
		}
		address = args[0]
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
			return "", c.Errf("%q is no address and port; say live 127.0.0.1:8192", address)
		}
		if c.NextBlock() {
			return "", c.Errf("unknown option %q; live has none", c.Val())
		}
	}
	return address, nil
}

// listening are the addresses at which a server block answers this host.
func listening(hosts []string, port string) (list []string) {
	for _, host := range hosts {
		switch host {
		case "", "0.0.0.0":
			host = "127.0.0.1"
		case "::":
			host = "::1"
		}
		list = append(list, net.JoinHostPort(host, port))
	}
	return list
}

// nameIn is the name that is asked for in a zone.
func nameIn(zone string) string { return dns.CanonicalName(label + strings.TrimPrefix(zone, ".")) }

// probe answers /livez, and the question that it asks for that.
type probe struct {
	address string
	name    string
	names   []string        // of all zones of the block: each has a probe, and one of these answers
	servers func() []string // known once all plugins of the block are set up
	next    plugin.Handler
	close   func()
}

// start listens. While the server reloads another one does at the same address.
func (p *probe) start() error {
	listener, err := reuseport.Listen("tcp", p.address)
	if err != nil {
		return fmt.Errorf("%s: %w; give live an address of this host that is free", pluginName, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", p.serve)
	listener = run.Bound(listener, slog.Default())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := run.ServeHTTP(mux)(ctx, listener); err != nil {
			log.Errorf("/livez is not served any more: %v", err)
		}
	}()
	p.close = func() {
		cancel()
		_ = listener.Close() // it may not be served yet
		<-ended
	}
	return nil
}

func (p *probe) stop() error {
	if p.close != nil {
		p.close()
	}
	return nil
}

func (p *probe) serve(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*askTimeout)
	defer cancel()
	if err := ask(ctx, p.name, p.servers()); err != nil {
		log.Warningf("this server does not answer: %v", err)
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "the DNS server answers")
}

// ask asks every address. Whatever it says is an answer.
func ask(ctx context.Context, name string, servers []string) error {
	errs := make(chan error, len(servers))
	for _, server := range servers {
		go func() {
			err := askOne(ctx, new(dns.Msg).SetQuestion(name, dns.TypeTXT), server)
			if err != nil {
				err = fmt.Errorf("ask %s: %w", server, err)
			}
			errs <- err
		}()
	}
	var all []error
	for range servers {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// askOne asks an address, some times over UDP and then over TCP: who floods a socket
// has the datagrams of others lost, and takes no place of a connection. A socket that
// is gone refuses, and one for TCP does not stand for it.
func askOne(ctx context.Context, question *dns.Msg, server string) (err error) {
	for range udpTries {
		try, cancel := context.WithTimeout(ctx, askTimeout/udpTries)
		_, err = dns.ExchangeContext(try, question, server)
		cancel()
		if err == nil || errors.Is(err, syscall.ECONNREFUSED) {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	client := dns.Client{Net: "tcp"}
	if _, _, errTCP := client.ExchangeContext(ctx, question, server); errTCP != nil {
		return fmt.Errorf("%w; then %w", err, errTCP)
	}
	return nil
}

// Name implements plugin.Handler.
func (p *probe) Name() string { return pluginName }

// CacheBypassZones implements cache.ZoneBypasser: cache keeps answers for 5 s also
// where their TTL is 0, and stale ones for longer, and would say for a server that
// answers nobody that it is live.
func (p *probe) CacheBypassZones() []string { return p.names }

// ServeDNS implements plugin.Handler.
func (p *probe) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if len(r.Question) != 1 || !slices.Contains(p.names, dns.CanonicalName(r.Question[0].Name)) {
		return plugin.NextOrFailure(pluginName, p.next, ctx, w, r)
	}
	m := new(dns.Msg).SetReply(r)
	m.Authoritative = true
	if r.Question[0].Qtype == dns.TypeTXT {
		header := dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET} // for no resolver's cache
		m.Answer = []dns.RR{&dns.TXT{Hdr: header, Txt: []string{"live"}}}
	}
	return dns.RcodeSuccess, w.WriteMsg(m)
}
