package capture

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/links"
)

// Links that come and go all the time keep the bridges of pods from being followed
// neither now nor for longer than a question each minute.
func TestLookAmongLinksThatChange(t *testing.T) {
	var asked []string
	bridge, odd := links.Link{Name: "cni0", Kind: "bridge"}, links.Link{Name: "eth1", Validates: true}
	var all []links.Link
	failure := fmt.Errorf("list links: %w", dump.ErrTorn)
	read := func(kind string) ([]links.Link, error) {
		asked = append(asked, kind)
		if kind == "bridge" {
			return []links.Link{bridge}, nil
		}
		return all, failure
	}
	c := &Capture{}
	look := func(when string, validates bool, want ...string) {
		t.Helper()
		asked = nil
		if list, err := c.look(read); err != nil || !slices.ContainsFunc(list, func(l links.Link) bool { return l.Kind == "bridge" }) {
			t.Errorf("%s: %v, %v", when, list, err)
		}
		if !slices.Equal(asked, want) || c.validates != validates {
			t.Errorf("%s: asked for %q, validates %v", when, asked, c.validates)
		}
	}
	look("torn", false, "", "bridge")
	look("just after", false, "bridge")
	c.looked, all = c.looked.Add(-allLinksEvery), []links.Link{odd}
	look("one is seen in it", true, "", "bridge")
	c.looked, all = c.looked.Add(-allLinksEvery), nil
	look("it may be missing", true, "", "bridge")
	c.looked, all, failure = c.looked.Add(-allLinksEvery), []links.Link{bridge}, nil
	look("whole", false, "")
	c.looked, failure = c.looked.Add(-allLinksEvery), errors.New("no memory")
	if _, err := c.look(read); !errors.Is(err, failure) {
		t.Errorf("another failure: %v", err)
	}
}

// What the capture sets may be put back from a record, and no other sysctl.
func TestWhichSysctlsAreOurs(t *testing.T) {
	for key, want := range map[string]bool{
		EarlyDemux: true, "net.bridge.bridge-nf-call-iptables": true, "net.bridge.bridge-nf-call-ip6tables": true,
		sendRedirects("cni0"): true, sendRedirects("br.7"): true, "net.ipv4.conf.br/7.send_redirects": true,
		"net.ipv4.ip_forward": false, "net.ipv4.conf.cni0.rp_filter": false, "net.ipv4.conf.all.send_redirects": false, "net.ipv4.conf.default.send_redirects": false,
		"net.ipv4.conf..send_redirects": false, "net.ipv4.conf.a.b.send_redirects": false, "net.ipv4.conf.send_redirects": false, "net.bridge.bridge-nf-call-arptables": false, "": false,
	} {
		if got := setsSysctl(key); got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
}
