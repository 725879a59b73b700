package dnsplugin

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/coredns/caddy"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"grid":                               "",
		"grid cluster.local in-addr.arpa":    "",
		"grid {\n services on\n strict\n}":   "",
		"grid {\n nonsense\n}":               `unknown option "nonsense"; use node`,
		"grid {\n node\n}":                   "node takes one argument, not 0",
		"grid {\n node a b\n}":               "node takes one argument, not 2",
		"grid {\n services maybe\n}":         `services "maybe": use on or off`,
		"grid {\n empty void\n}":             `empty "void": use nxdomain or nodata`,
		"grid {\n ordinals some\n}":          `ordinals "some": use all or ready`,
		"grid {\n ordinals all\n}":           "",
		"grid {\n ttl -1\n}":                 `ttl "-1": give seconds from 0 to 3600`,
		"grid {\n ttl 3601\n}":               "from 0 to 3600",
		"grid {\n source http://x/\n}":       `source "http://x/": use unix:///SOCKET`,
		"grid {\n source unix://\n}":         "use unix:///SOCKET",
		"grid {\n snapshot here\n}":          `snapshot "here": give an absolute path`,
		"grid {\n strict very\n}":            "strict takes no argument",
		"grid {\n topology_keys any\n}":      `"any" is not known; use ordered or union`,
		"grid\ngrid":                         "may be there once in a server block; give all zones to one",
		"grid {\n fallthrough example.org\n": "",
	} {
		_, err := parse(caddy.NewTestController("dns", text))
		switch {
		case want == "" && err != nil && !strings.Contains(text, "fallthrough"):
			t.Errorf("%q: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// In the server block of all names, grid needs zones of its own: it would do
// nothing, in silence.
func TestZonesAreNeeded(t *testing.T) {
	for text, fine := range map[string]bool{"grid": false, "grid .": false, "grid cluster.local": true, "grid cluster.local .": false} {
		c := caddy.NewTestController("dns", text)
		c.ServerBlockKeys = []string{"dns://.:53"}
		_, err := parse(c)
		if fine != (err == nil) || err != nil && !strings.Contains(err.Error(), "give the cluster's") {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"grid cluster.local.. in-addr.arpa", "grid .cluster.local", "grid cluster..local", "grid cluster.local {\n fallthrough in-addr.arpa..\n}"} {
		c := caddy.NewTestController("dns", text)
		c.ServerBlockKeys = []string{"dns://.:53"}
		if _, err := parse(c); err == nil || !strings.Contains(err.Error(), "is no zone; give the cluster's, as cluster.local") {
			t.Errorf("%q: %v", text, err)
		}
	}
	c := caddy.NewTestController("dns", "grid")
	c.ServerBlockKeys = []string{"dns://cluster.local.:53"}
	if g, err := parse(c); err != nil || len(g.Zones) != 1 || g.Zones[0] != "cluster.local." {
		t.Errorf("in a block of the zone: %v, %v", g, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("grid cluster.local {\n node a\n source unix:///x\n ttl 7\n}")
	f.Add("grid {\n snapshot /x\n services on\n empty nxdomain\n fallthrough\n}")
	f.Fuzz(func(t *testing.T, text string) {
		g, err := parse(caddy.NewTestController("dns", text))
		if err == nil && g.cfg.ttl > maxTTL {
			t.Errorf("ttl %d", g.cfg.ttl)
		}
	})
}

// The README's examples parse.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)~~~ corefile\n(.*?)~~~").FindAllStringSubmatch(string(text), -1)
	if len(blocks) == 0 {
		t.Fatal("no example")
	}
	for _, b := range blocks {
		_, body, _ := strings.Cut(b[1], "grid {")
		if _, err := parse(caddy.NewTestController("dns", "grid {"+body[:strings.Index(body, "}")+1])); err != nil {
			t.Errorf("%v in\n%s", err, b[1])
		}
	}
	for name := range options {
		if !strings.Contains(string(text), "`"+name) {
			t.Errorf("README.md does not describe %s", name)
		}
	}
}
