package edge

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// NodeDNS is where pods find the node's DNS with the Corefile of deploy/.
var NodeDNS = []string{"169.254.20.11", "fd00:6772:6964::53"}

// corefile is that of deploy/dns.yaml for this node's paths, with another
// server for what the node does not know.
func (e *Node) corefile(upstream string) (string, error) {
	data, err := os.ReadFile(filepath.Join(Root(), "deploy", "dns.yaml"))
	if err != nil {
		return "", err
	}
	var m corev1.ConfigMap
	first, _, _ := strings.Cut(string(data), "\n---\n")
	if err := yaml.Unmarshal([]byte(first), &m); err != nil {
		return "", fmt.Errorf("read deploy/dns.yaml: %w", err)
	}
	text := m.Data["Corefile"]
	for old, now := range map[string]string{
		"services on\n":             fmt.Sprintf("services on\n node %s\n source unix://%s/feed.sock\n", e.Name, e.Dir),
		"/var/lib/gridmesh/dns.v1":  cmp.Or(e.DNSDir, e.Dir) + "/" + DNSState,
		"{$CLUSTER_DOMAIN}":         "cluster.local",
		"{$CLUSTER_DNS}":            upstream,
		"{$POD_CIDR} {$POD_CIDR_2}": "10.244.0.0/16 fd00:244::/32",
	} {
		if strings.Count(text, old) != 1 {
			return "", fmt.Errorf("the Corefile of deploy/dns.yaml has %q %d times, not once", old, strings.Count(text, old))
		}
		text = strings.Replace(text, old, now, 1)
	}
	return text, nil
}

// StartDNS starts gridmesh-dns with the Corefile of deploy/.
func (e *Node) StartDNS(upstream string) error {
	text, err := e.corefile(upstream)
	if err != nil {
		return err
	}
	path := filepath.Join(e.Dir, "Corefile")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	e.DNS, err = Start(e.NS, "dns "+e.Name, Binary("gridmesh-dns"), "-conf", path)
	return err
}

// Exchange asks a DNS server from a namespace, by "udp" or "tcp", once, and
// waits as long as glibc does.
func Exchange(from *netlab.NS, network, server string, q *dns.Msg) (*dns.Msg, error) {
	return exchange(from, network, server, q, 5*time.Second)
}

func exchange(from *netlab.NS, network, server string, q *dns.Msg, within time.Duration) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	conn, err := from.Dial(ctx, network, server)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	m, _, err := (&dns.Client{Net: network, Timeout: within}).ExchangeWithConnContext(ctx, q, &dns.Conn{Conn: conn})
	return m, err
}

// Resolve asks a DNS server by UDP and returns the data of the answer, sorted;
// any rcode but success is an error, and so is none within a second.
func Resolve(from *netlab.NS, server, name string, qtype uint16) ([]string, error) {
	m, err := exchange(from, "udp", server, new(dns.Msg).SetQuestion(name, qtype), time.Second)
	if err != nil {
		return nil, err
	}
	if m.Rcode != dns.RcodeSuccess {
		return nil, fmt.Errorf("%s from %s: %s", name, from.Name, dns.RcodeToString[m.Rcode])
	}
	list := []string{}
	for _, rr := range m.Answer {
		list = append(list, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	slices.Sort(list)
	return list, nil
}
