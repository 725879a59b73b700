package capture

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
)

// sctpInit is the first packet of an SCTP association (RFC 9260, 3.3.2). The
// kernel of the test need not speak SCTP.
func sctpInit(src, dst uint16) []byte {
	b := make([]byte, 32)
	binary.BigEndian.PutUint16(b[0:], src)
	binary.BigEndian.PutUint16(b[2:], dst)
	b[12] = 1 // INIT
	binary.BigEndian.PutUint16(b[14:], 20)
	binary.BigEndian.PutUint32(b[16:], 7)       // initiate tag
	binary.BigEndian.PutUint32(b[20:], 1<<16)   // window
	binary.BigEndian.PutUint32(b[24:], 1<<16|1) // one stream each way
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func TestKernelSCTP(t *testing.T) {
	t.Parallel()
	for _, ipv6 := range []bool{false, true} {
		network, client, node, cluster, nodePort := "ip4:132", "10.244.0.5", "10.244.0.1", "10.96.0.%d", "192.0.2.1"
		if ipv6 {
			network, client, node, cluster, nodePort = "ip6:132", "fd00:244::5", "fd00:244::1", "fd00:96::%d", "2001:db8::1"
		}
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			l := newKernelLab(t, kernelConfig())
			l.put(t, frontendsOf(topology.SCTP, ipv6)...)
			var pod net.PacketConn
			must(t, l.b.Do(func() (err error) {
				pod, err = net.ListenPacket(network, "")
				return err
			}))
			defer pod.Close()
			for i, tc := range []struct {
				from         *testkit.Network
				to           string
				port         uint16
				source, ends string
			}{
				{l.a, fmt.Sprintf(cluster, 1), 80, client, "b"},
				{l.node, fmt.Sprintf(cluster, 1), 80, node, "b"},
				{l.outside, nodePort, 30080, node, "b"},
				{l.a, fmt.Sprintf(cluster, 4), 80, "", isRefused},
				{l.outside, nodePort, 30083, "", isRefused},
			} {
				var answer string
				must(t, tc.from.Do(func() error {
					conn, err := net.Dial(network, tc.to)
					if err != nil {
						return err
					}
					defer conn.Close()
					question := sctpInit(uint16(20000+i), tc.port)
					if tc.ends == isRefused {
						answer = askAgain(conn, question, 10*time.Second)
						return nil
					}
					if _, err := conn.Write(question); err != nil {
						return err
					}
					b := make([]byte, 2000)
					_ = pod.SetDeadline(time.Now().Add(10 * time.Second))
					n, from, err := pod.ReadFrom(b)
					if err != nil {
						return fmt.Errorf("%s port %d: %w", tc.to, tc.port, err)
					}
					if port := binary.BigEndian.Uint16(b[2:]); n < 32 || port != 8080 || from.String() != tc.source {
						t.Errorf("%s port %d: %d bytes from %s to port %d", tc.to, tc.port, n, from, port)
					}
					answer = "b"
					return nil
				}))
				if answer != tc.ends {
					t.Errorf("%s port %d: %s, want %s", tc.to, tc.port, answer, tc.ends)
				}
			}
		})
	}
}
