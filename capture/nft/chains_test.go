package nft

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
)

// tearing is netlink whose every list is one item, and torn.
type tearing struct {
	*net.UnixConn
	kernel int // the other end
	item   nl.Message
	asked  int
}

func newTearing(t *testing.T, item nl.Message) *tearing {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	must(t, err)
	file := os.NewFile(uintptr(ends[0]), "netlink")
	conn, err := net.FileConn(file)
	must(t, errors.Join(err, file.Close()))
	t.Cleanup(func() { must(t, errors.Join(conn.Close(), unix.Close(ends[1]))) })
	return &tearing{UnixConn: conn.(*net.UnixConn), kernel: ends[1], item: item}
}

// Send implements netlink.Socket: it answers.
func (s *tearing) Send(m nl.Message) error {
	s.asked++
	answer := func(kind nl.HeaderType, flags nl.HeaderFlags, data []byte) []byte {
		b := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(data)))
		b = binary.NativeEndian.AppendUint16(b, uint16(kind))
		b = binary.NativeEndian.AppendUint16(b, uint16(flags))
		b = binary.NativeEndian.AppendUint32(b, m.Header.Sequence)
		return append(binary.NativeEndian.AppendUint32(b, m.Header.PID), data...)
	}
	list := answer(s.item.Header.Type, nl.Multi|nl.DumpInterrupted, s.item.Data)
	_, err := unix.Write(s.kernel, append(list, answer(nl.Done, nl.Multi|nl.DumpInterrupted, make([]byte, 4))...))
	return err
}

// SendMessages and Receive are netlink.Socket's, for what is no list.
func (*tearing) SendMessages([]nl.Message) error         { return errors.ErrUnsupported }
func (*tearing) Receive() ([]nl.Message, error)          { return nil, errors.ErrUnsupported }
func (s *tearing) SyscallConn() (syscall.RawConn, error) { return s.UnixConn.SyscallConn() }

// Who writes chains all the time tears the list of them, as kube-proxy does. What was
// told of them is not thrown away: it is what no agent starts beside.
func TestChainsOfATornList(t *testing.T) {
	kernel := newTearing(t, told(unix.NFT_MSG_NEWCHAIN,
		nl.Attribute{Type: unix.NFTA_CHAIN_TABLE, Data: []byte("kube-proxy\x00")},
		nl.Attribute{Type: unix.NFTA_CHAIN_NAME, Data: []byte("services\x00")}))
	s := New()
	s.raw = nl.NewConn(kernel, 7)
	list, err := s.Chains()
	if !errors.Is(err, dump.ErrTorn) || len(list) != 1 || list[0].Name != "services" || list[0].Table.Name != "kube-proxy" || list[0].Table.Family != nftables.TableFamilyINet {
		t.Errorf("%v, %v", list, err)
	}
	if kernel.asked != 5 {
		t.Errorf("read %d times", kernel.asked)
	}
}
