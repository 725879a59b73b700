package dnsplugin

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"

	"github.com/gridmesh/gridmesh/topology"
)

const pluginName = "grid"

func init() { plugin.Register(pluginName, setup) } // CoreDNS's way

func setup(c *caddy.Controller) error {
	g, err := parse(c)
	if err != nil {
		return plugin.Error(pluginName, err)
	}
	g.disk = realDisk
	if g.feed, err = g.cfg.open(); err != nil {
		return plugin.Error(pluginName, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	c.OnStartup(func() error {
		wg.Go(func() { g.follow(ctx) })
		running.set(g, true)
		for begin := time.Now(); !g.Ready() && time.Since(begin) < startupTimeout; {
			time.Sleep(startupTimeout / 500)
		}
		return nil
	})
	c.OnShutdown(func() error {
		running.set(g, false)
		cancel()
		wg.Wait()
		return nil
	})
	dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
		g.Next = next
		return g
	})
	return nil
}

// config is the block of the Corefile.
type config struct {
	node     string
	source   *url.URL
	snapshot string
	ttl      uint32
	view     topology.Options
}

const (
	// startupTimeout is how long the server waits for its first data: without
	// them the next plugin answers, which knows no units.
	startupTimeout = 2 * time.Second

	defaultTTL = 5
	maxTTL     = 3600
)

var defaultSource = &url.URL{Scheme: "unix", Path: "/run/gridmesh/feed.sock"}

// parse reads the block. Every error names option and cure; Caddy adds file
// and line.
func parse(c *caddy.Controller) (*Grid, error) {
	host, _ := os.Hostname()
	g := &Grid{cfg: config{node: strings.ToLower(host), source: defaultSource, ttl: defaultTTL}}
	if node := os.Getenv("NODE_NAME"); node != "" {
		g.cfg.node = node
	}
	blocks := 0
	for c.Next() {
		if blocks++; blocks > 1 {
			return nil, c.Err("grid may be there once in a server block; give all zones to one")
		}
		zones := c.RemainingArgs()
		if err := areZones(zones); err != nil {
			return nil, c.Err(err.Error())
		}
		g.Zones = plugin.OriginsFromArgsOrServerBlock(zones, c.ServerBlockKeys)
		if slices.Contains(g.Zones, ".") {
			return nil, c.Err("grid answers no names of the zone \".\"; give the cluster's, as grid cluster.local in-addr.arpa ip6.arpa")
		}
		for c.NextBlock() {
			if err := g.option(c.Val(), c.RemainingArgs()); err != nil {
				return nil, c.Err(err.Error())
			}
		}
	}
	return g, nil
}

// areZones is an error where CoreDNS would pass over a zone.
func areZones(list []string) error {
	for _, zone := range list {
		if len(plugin.Host(zone).NormalizeExact()) == 0 {
			return fmt.Errorf("%q is no zone; give the cluster's, as cluster.local (CLUSTER_DOMAIN in deploy/ has no dot at its end)", zone)
		}
	}
	return nil
}

func (g *Grid) option(name string, args []string) error {
	if name == "fallthrough" {
		if err := areZones(args); err != nil {
			return fmt.Errorf("fallthrough %w", err)
		}
		g.Fall.SetZonesFromArgs(args)
		return nil
	}
	if name == "strict" {
		if len(args) > 0 {
			return fmt.Errorf("strict takes no argument, not %q", args[0])
		}
		g.answers.Strict = true
		return nil
	}
	set, known := options[name]
	switch {
	case !known:
		return fmt.Errorf("unknown option %q; use node, source, snapshot, services, empty, topology_keys, ordinals, ttl, strict or fallthrough", name)
	case len(args) != 1:
		return fmt.Errorf("%s takes one argument, not %d", name, len(args))
	}
	return set(g, args[0])
}

// options with one argument.
var options = map[string]func(g *Grid, arg string) error{
	"node":     func(g *Grid, arg string) error { g.cfg.node = arg; return nil },
	"source":   func(g *Grid, arg string) (err error) { g.cfg.source, err = parseSource(arg); return err },
	"snapshot": func(g *Grid, arg string) error { g.cfg.snapshot = arg; return absolute("snapshot", arg) },
	"services": func(g *Grid, arg string) error { return choose("services", arg, "on", "off", &g.answers.Services) },
	"empty": func(g *Grid, arg string) error {
		return choose("empty", arg, "nxdomain", "nodata", &g.answers.EmptyNXDomain)
	},
	"topology_keys": func(g *Grid, arg string) error {
		reading, err := topology.ParseReading(arg)
		if err != nil {
			return fmt.Errorf("topology_keys %w", err)
		}
		g.cfg.view.Reading = reading
		return nil
	},
	"ordinals": func(g *Grid, arg string) error {
		all := false
		if err := choose("ordinals", arg, "all", "ready", &all); err != nil {
			return err
		}
		g.cfg.view.Ordinals = topology.OrdinalsReady
		if all {
			g.cfg.view.Ordinals = topology.OrdinalsAll
		}
		return nil
	},
	"ttl": func(g *Grid, arg string) error {
		n, err := strconv.ParseUint(arg, 10, 32)
		if err != nil || n > maxTTL {
			return fmt.Errorf("ttl %q: give seconds from 0 to %d", arg, maxTTL)
		}
		g.cfg.ttl = uint32(n)
		return nil
	},
}

func choose(option, arg, yes, no string, to *bool) error {
	if arg != yes && arg != no {
		return fmt.Errorf("%s %q: use %s or %s", option, arg, yes, no)
	}
	*to = arg == yes
	return nil
}

func absolute(option, path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%s %q: give an absolute path", option, path)
	}
	return nil
}

func parseSource(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Path == "" || u.Scheme != "unix" && u.Scheme != "file" && u.Scheme != "kubeconfig" {
		return nil, fmt.Errorf("source %q: use unix:///SOCKET of the node's agent, kubeconfig:///FILE of a cluster, or file:///DIRECTORY of manifests", text)
	}
	return u, nil
}
