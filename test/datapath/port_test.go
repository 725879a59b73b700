package datapath

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// timeWait lists the local ports of a namespace's TIME-WAIT sockets between
// two IPv4 addresses.
func timeWait(t *testing.T, ns *netlab.NS, local, remote netip.Addr) (ports []uint16) {
	t.Helper()
	var text []byte
	must(t, ns.Do(func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/tcp")
		return err
	}))
	parse := func(field string) (ip netip.Addr, port uint16) {
		address, hexPort, _ := strings.Cut(field, ":")
		raw, err := hex.DecodeString(address)
		must(t, err)
		n, err := strconv.ParseUint(hexPort, 16, 16)
		must(t, err)
		var b [4]byte
		binary.LittleEndian.PutUint32(b[:], binary.BigEndian.Uint32(raw))
		return netip.AddrFrom4(b), uint16(n)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[3] != "06" {
			continue
		}
		from, port := parse(f[1])
		if to, _ := parse(f[2]); from == local && to == remote {
			ports = append(ports, port)
		}
	}
	return ports
}

// A pod dials an endpoint directly from the very port that Envoy has just used
// in its name. The answers must reach the pod.
func TestPortThatEnvoyUsedInAPodsName(t *testing.T) {
	f := deploy(t, "port", `["unit"]`)
	f.served(t)
	for _, name := range []string{"a-1", "a-2", "b-3"} {
		t.Run(name, func(t *testing.T) {
			e, from := named(t, name), f.pods[name]
			far := f.pods["a-1"]
			if name == "a-1" {
				far = f.pods["a-2"]
			}
			if name == "b-3" {
				far = f.pods["b-1"]
			}
			var port uint16
			wait.Eventually(t, func() error {
				if _, err := edge.Ask(from.NS, "tcp", f.at(0), time.Second); err != nil {
					return err
				}
				ports := timeWait(t, e.NS, from.IP, far.IP)
				if len(ports) == 0 {
					return fmt.Errorf("no TIME-WAIT from %s to %s", from.IP, far.IP)
				}
				port = ports[0]
				return nil
			})
			for range 3 {
				start := time.Now()
				must(t, from.NS.Do(func() error {
					d := net.Dialer{Timeout: answers, LocalAddr: &net.TCPAddr{IP: from.IP.AsSlice(), Port: int(port)}}
					conn, err := d.Dial("tcp", netip.AddrPortFrom(far.IP, 8080).String())
					if err != nil {
						return err
					}
					defer conn.Close()
					must(t, conn.(*net.TCPConn).SetLinger(0)) // or this test would wait for itself
					_ = conn.SetDeadline(time.Now().Add(answers))
					if _, err := fmt.Fprintln(conn, "who"); err != nil {
						return err
					}
					_, err = bufio.NewReader(conn).ReadString('\n')
					return err
				}))
				if took := time.Since(start); took > firstPacket {
					t.Errorf("took %s from port %d", took, port)
				}
			}
		})
	}
}
