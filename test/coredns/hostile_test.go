package coredns

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// One client that sends nonsense, asks without reading, or holds connections that
// say nothing or little, costs others nothing, and its connections end.
func TestHostileClients(t *testing.T) {
	dir := t.TempDir()
	state := `{apiVersion: v1, kind: Node, metadata: {name: a-1}}
---
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.9, ports: [{port: 80}]}}
`
	if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	address := serve(t, edge.Binary("gridmesh-dns"), fmt.Sprintf(`. {
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
`, dir))
	const name = "web.default.svc.cluster.local."
	served := func() error {
		for qtype, want := range map[uint16]int{dns.TypeA: 1, dns.TypeAAAA: 0} {
			m, err := ask(address, name, qtype)
			if err != nil {
				return err
			}
			if m.Rcode != dns.RcodeSuccess || len(m.Answer) != want {
				return fmt.Errorf("%s: %s with %d records", dns.TypeToString[qtype], dns.RcodeToString[m.Rcode], len(m.Answer))
			}
		}
		return nil
	}
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
}

// nonsense: names that point at themselves, broken EDNS, ANY, noise.
func nonsense(t *testing.T, address string, question []byte) {
	conn, err := net.Dial("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	header := func(additional byte) []byte { return []byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, additional} }
	noise := make([]byte, 512)
	_, _ = rand.Read(noise)
	anything, err := new(dns.Msg).SetQuestion("web.default.svc.cluster.local.", dns.TypeANY).Pack()
	if err != nil {
		t.Fatal(err)
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
