package nodelocal

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/coredns/caddy"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"nodelocal 169.254.20.11":                    "",
		"nodelocal 169.254.20.11 fd00:6772:6964::53": "",
		"nodelocal":          "give the addresses",
		"nodelocal here":     `"here" is no IP address`,
		"nodelocal 10.0.0.1": "give a link-local address of IPv4",
		"nodelocal fe80::1":  "a unique local one of IPv6",
		"nodelocal 169.254.20.11 {\n interface eth0\n}": "unknown option",
	} {
		list, err := parse(caddy.NewTestController("dns", text))
		if want == "" && (err != nil || len(list) != len(strings.Fields(text))-1) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, %v, want %q", text, list, err, want)
		}
	}
}

// The README's example parses.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^    (nodelocal .*)$`).FindAllStringSubmatch(string(text), -1)
	if len(lines) == 0 {
		t.Fatal("no example")
	}
	for _, line := range lines {
		if _, err := parse(caddy.NewTestController("dns", line[1])); err != nil {
			t.Errorf("%s: %v", line[1], err)
		}
	}
}
