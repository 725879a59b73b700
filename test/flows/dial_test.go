package flows

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// silence is what a dial ends with that nobody answered before its context ended.
var errSilence = errors.New("silence")

// dialler connects from a namespace.
type dialler interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// from is a dialler that enters its namespace each time; net.Dialer is in it already.
type from struct{ *netlab.NS }

func (n from) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return n.Dial(ctx, network, address)
}

// ask dials, asks who is there, and returns name and address of who answered whom.
func ask(ctx context.Context, d dialler, network string, to netip.AddrPort) (name, client string, err error) {
	c, err := d.DialContext(ctx, strings.TrimRight(network, "46"), to.String())
	if err != nil {
		return "", "", told(ctx, err)
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	var line string
	if strings.HasPrefix(network, "udp") {
		line, err = askAgain(ctx, c)
	} else {
		if _, err = fmt.Fprintln(c, "who"); err == nil {
			line, err = bufio.NewReader(c).ReadString('\n')
		}
	}
	if err != nil {
		return "", "", told(ctx, err)
	}
	name, client, _ = strings.Cut(strings.TrimSpace(line), " ")
	return name, client, nil
}

// repeats is how often a question of UDP is asked: nobody sends a lost packet again.
const repeats = 300 * time.Millisecond

func askAgain(ctx context.Context, c net.Conn) (string, error) {
	buf := make([]byte, 512)
	for ctx.Err() == nil {
		// A process is told EPERM of what is dropped before it leaves, and then why.
		if _, err := fmt.Fprintln(c, "who"); err != nil && !errors.Is(err, syscall.EPERM) {
			return "", err
		}
		_ = c.SetReadDeadline(time.Now().Add(repeats))
		n, err := c.Read(buf)
		if err == nil {
			return string(buf[:n]), nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return "", err
		}
	}
	return "", ctx.Err()
}

// told is an error in the words of outcomes.
func told(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New(refused)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return errors.New("reset")
	case errors.Is(err, io.EOF):
		return errors.New("closed")
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return errors.New("unreachable")
	case ctx.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return errSilence
	}
	return err
}

// serveBeyond answers in a namespace at addresses of frontends, by TCP and UDP.
func serveBeyond(ns *netlab.NS, ips []netip.Addr) error {
	return ns.Do(func() error {
		for _, ip := range ips {
			at := netip.AddrPortFrom(ip, port).String()
			l, err := net.Listen("tcp", at)
			if err != nil {
				return err
			}
			p, err := net.ListenPacket("udp", at)
			if err != nil {
				return err
			}
			go beyondTCP(l)
			go beyondUDP(p)
		}
		return nil
	})
}

func beyondTCP(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_, _ = bufio.NewReader(c).ReadString('\n')
			_, _ = io.WriteString(c, nameTo(c.RemoteAddr()))
		}()
	}
}

func beyondUDP(p net.PacketConn) {
	buf := make([]byte, 512)
	for {
		_, from, err := p.ReadFrom(buf)
		if err != nil {
			return
		}
		_, _ = p.WriteTo([]byte(nameTo(from)), from)
	}
}

func nameTo(a net.Addr) string {
	ip := netip.MustParseAddrPort(a.String()).Addr().Unmap()
	return fmt.Sprintf("%s %s\n", beyond, ip)
}
