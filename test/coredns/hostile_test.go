package coredns

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// One client that sends nonsense, asks without reading, or holds connections that
// say nothing or little, costs others nothing, and its connections end. One that sends
// more than the server reads has others' datagrams lost, and no more: it lives, and
// answers over TCP.
func TestHostileClients(t *testing.T) {
	dir := t.TempDir()
	state := `{apiVersion: v1, kind: Node, metadata: {name: a-1}}
---
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.9, ports: [{port: 80}]}}
`
	if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	livez := testkit.Free(t)
	address := serve(t, edge.Binary("gridmesh-dns"), fmt.Sprintf(`. {
    live %s
    timeouts {
        read 2s
        idle 3s
        write 2s
        maxtcpqueries 100
    }
    grid cluster.local {
        node a-1
        services on
        source file://%s
    }
}
`, livez, dir))
	const name = "web.default.svc.cluster.local."
	over := func(network string, patience time.Duration) error {
		for qtype, want := range map[uint16]int{dns.TypeA: 1, dns.TypeAAAA: 0} {
			client := dns.Client{Net: network, Timeout: patience}
			m, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, qtype), address)
			if err != nil {
				return err
			}
			if m.Rcode != dns.RcodeSuccess || len(m.Answer) != want {
				return fmt.Errorf("%s: %s with %d records", dns.TypeToString[qtype], dns.RcodeToString[m.Rcode], len(m.Answer))
			}
		}
		return nil
	}
	served := func() error { return over("udp", 2*time.Second) } // a datagram may be lost
	wait.Eventually(t, served)
	question, err := new(dns.Msg).SetQuestion(name, dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	frame := append(binary.BigEndian.AppendUint16(nil, uint16(len(question))), question...)
	for what, attack := range map[string]func(t *testing.T){
		"nonsense over UDP":  func(t *testing.T) { nonsense(t, address, question) },
		"asks and reads not": func(t *testing.T) { pipelined(t, address, frame) },
		"says nothing":       func(t *testing.T) { holds(t, address, func(net.Conn) error { return nil }) },
		"half a question": func(t *testing.T) {
			holds(t, address, func(c net.Conn) error { _, err := c.Write(frame[:5]); return err })
		},
		"one question": func(t *testing.T) { holds(t, address, func(c net.Conn) error { _, err := c.Write(frame); return err }) },
	} {
		t.Run(what, func(t *testing.T) {
			attack(t)
			wait.Eventually(t, served)
		})
	}
	t.Run("a flood over UDP", func(t *testing.T) {
		stop := flood(t, address, question)
		wait.Holds(t, 8*time.Second, func() error { return errors.Join(alive(livez), over("tcp", 20*time.Second)) })
		stop()
		wait.Eventually(t, served)
	})
}

// flood: nonsense without a pause, so that datagrams are lost, until it is stopped.
func flood(t *testing.T, address string, question []byte) (stop func()) {
	t.Helper()
	var wg sync.WaitGroup
	before, over := lost(t, address), make(chan struct{})
	stop = sync.OnceFunc(func() { close(over); wg.Wait() })
	t.Cleanup(stop)
	for range max(2, runtime.NumCPU()) {
		wg.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					nonsense(t, address, question)
				}
			}
		})
	}
	wait.Eventually(t, func() error {
		if n := lost(t, address); n == before {
			return fmt.Errorf("no more than %d datagrams were lost", n)
		}
		return nil
	})
	return stop
}

// lost is how many datagrams the socket of an address had no room for.
func lost(t *testing.T, address string) (n int) {
	t.Helper()
	text, err := os.ReadFile("/proc/net/udp")
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(address)
	local := fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(at.Addr().AsSlice()), at.Port())
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 12 && f[1] == local {
			if n, err = strconv.Atoi(f[12]); err == nil {
				return n
			}
		}
	}
	t.Fatalf("no socket of %s in\n%s", address, text)
	return 0
}

// alive is nil if a liveness probe says so.
func alive(livez string) error {
	answer, err := http.Get("http://" + livez + "/livez")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return errors.Join(err, fmt.Errorf("/livez: %s %q", answer.Status, text))
	}
	return nil
}

// nonsense: names that point at themselves, broken EDNS, ANY, noise.
func nonsense(t *testing.T, address string, question []byte) {
	conn, err := net.Dial("udp", address)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	header := func(additional byte) []byte { return []byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, additional} }
	noise := make([]byte, 512)
	_, _ = rand.Read(noise)
	anything, err := new(dns.Msg).SetQuestion("web.default.svc.cluster.local.", dns.TypeANY).Pack()
	if err != nil {
		t.Error(err)
		return
	}
	edns := append(append(header(1), question[12:]...), 0, 0, 41, 255, 255, 255, 255, 255, 255, 255, 255, 1, 2, 3)
	for i := range 2000 {
		for _, m := range [][]byte{append(header(0), 0xc0, 12, 0, 1, 0, 1), append(header(0), 1, 'a', 0xc0, 14, 0, 1, 0, 1), edns, anything, noise[:i%len(noise)]} {
			_, _ = conn.Write(m)
		}
	}
}

// pipelined: as many questions as the connection takes, and no answer is read.
func pipelined(t *testing.T, address string, frame []byte) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		if _, err := conn.Write(frame); err != nil {
			if n > 200_000 {
				t.Errorf("the connection took %d questions", n)
			}
			return
		}
	}
}

// holds: connections that are held open end by themselves.
func holds(t *testing.T, address string, begin func(net.Conn) error) {
	conns := make([]net.Conn, 0, 200)
	for range cap(conns) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := begin(conn); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 512)
		for {
			_, err := conn.Read(buf)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal("a connection is still open after half a minute")
			}
			if err != nil {
				break
			}
		}
	}
}
