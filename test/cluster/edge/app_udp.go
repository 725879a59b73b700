package edge

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// listenUDP has the kernel say with each packet to which address it came, of both families.
func listenUDP(port int) (*net.UDPConn, error) {
	p, err := net.ListenUDP("udp", &net.UDPAddr{Port: port})
	if err != nil {
		return nil, err
	}
	raw, err := p.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		if errors.Is(failed, unix.ENOPROTOOPT) { // a socket of IPv4 alone, where IPv6 is off
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// answer tells who asks, from the address that was asked: a pod may have two.
func (a *App) answer(p *net.UDPConn) {
	buf, control := make([]byte, 2048), make([]byte, 128)
	for {
		_, n, _, from, err := p.ReadMsgUDPAddrPort(buf, control)
		if err != nil {
			return
		}
		_, _, _ = p.WriteMsgUDPAddrPort(fmt.Appendf(nil, "%s %s\n", a.Name, hostOf(from.String())), toSender(control[:n]), from)
	}
}

// toSender is what the kernel said of a packet, without the link: the answer takes whichever leads there.
func toSender(control []byte) []byte {
	list, err := unix.ParseSocketControlMessage(control)
	if err != nil || len(list) != 1 {
		return nil
	}
	info := list[0].Data
	switch list[0].Header.Level {
	case unix.IPPROTO_IPV6: // the address, and the link
		clear(info[16:20])
	case unix.IPPROTO_IP: // the link, and two addresses
		clear(info[:4])
	}
	return control
}
