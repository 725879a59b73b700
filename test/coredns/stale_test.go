package coredns

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// What the cluster's DNS alone knows below the zone is served stale while it is
// away, however often it is asked for; what nobody knows does not exist; what
// others serve is not denied.
func TestStaleAnswersOutliveTheCloud(t *testing.T) {
	const extra, late, labelled = "extra.cluster.local.", "late.default.svc.cluster.local.", "labelled.default.svc.cluster.local."
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cloud := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		switch name := strings.ToLower(q.Question[0].Name); name {
		case extra, late, "example.org.":
			rr, _ := dns.NewRR(name + " 1 IN A 192.0.2.1")
			m.Answer = []dns.RR{rr}
		default:
			m.Rcode = dns.RcodeNameError
		}
		_ = w.WriteMsg(m)
	})}
	ended := make(chan error, 1)
	go func() { ended <- cloud.ActivateAndServe() }()
	stop := func() {
		if cloud != nil {
			_ = cloud.Shutdown()
			<-ended
			cloud = nil
		}
	}
	t.Cleanup(stop)
	dir := t.TempDir()
	state := `{apiVersion: v1, kind: Node, metadata: {name: a-1}}
---
{apiVersion: v1, kind: Service, metadata: {name: labelled, labels: {service.kubernetes.io/service-proxy-name: other}}, spec: {clusterIP: 10.96.0.9, ports: [{port: 80}]}}
`
	if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	address := serve(t, edge.Binary("gridmesh-dns"), fmt.Sprintf(`. {
    cache {
        success 9984 3600 0
        denial 9984 30 0
        serve_stale 24h verify
    }
    grid cluster.local {
        node a-1
        services on
        source file://%s
    }
    forward . %s {
        max_connect_attempts 1
        max_fails 1
        failfast_all_unhealthy_upstreams
    }
}
`, dir, conn.LocalAddr()))
	expect := func(name string, rcode, answers int) error {
		m, err := ask(address, name, dns.TypeA)
		if err == nil && (m.Rcode != rcode || len(m.Answer) != answers) {
			err = fmt.Errorf("%s: %s with %d records, want %s with %d", name, dns.RcodeToString[m.Rcode], len(m.Answer), dns.RcodeToString[rcode], answers)
		}
		return err
	}
	for _, name := range []string{extra, late} {
		wait.Eventually(t, func() error { return expect(name, dns.RcodeSuccess, 1) })
	}
	stop()
	begin := time.Now()
	wait.Holds(t, 4*time.Second, func() error { // longer than the answers' time of 1 s, and than a denial's of 2 s
		for _, name := range []string{extra, late} {
			if err := expect(name, dns.RcodeSuccess, 1); err != nil {
				return fmt.Errorf("%s after the cloud went: %w", time.Since(begin).Round(time.Millisecond), err)
			}
		}
		return nil
	})
	for name, want := range map[string]int{"nobody.cluster.local.": dns.RcodeNameError, "nobody.default.svc.cluster.local.": dns.RcodeNameError, labelled: dns.RcodeServerFailure} {
		if err := expect(name, want, 0); err != nil {
			t.Error(err)
		}
	}
}
