package edge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// App is a server that says who it is and whom it sees, and takes and gives
// bytes. The protocol is one line in, one line or that many bytes out:
//
//	who        -> "NAME CLIENT-IP"
//	GET / HTTP/1.1, and headers -> the same, as the body of an answer
//	up N       -> reads N bytes, "ok"
//	down N     -> N bytes
type App struct {
	Name string
	mu   sync.Mutex
	l    []io.Closer
	open map[net.Conn]struct{}
}

// StartApp serves TCP and UDP on a port of a namespace, both families.
func StartApp(ns *netlab.NS, name string, port int) (a *App, err error) {
	err = ns.Do(func() error {
		a, err = listenApp(name, port)
		return err
	})
	return a, err
}

// ServeApp serves in this process's own namespace until ctx ends; the name is
// the host's.
func ServeApp(ctx context.Context, args []string) error {
	port := 8080
	if len(args) > 0 {
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return fmt.Errorf("port %q: %w", args[0], err)
		}
		port = n
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	a, err := listenApp(name, port)
	if err != nil {
		return err
	}
	<-ctx.Done()
	a.Stop()
	return nil
}

func listenApp(name string, port int) (*App, error) {
	a := &App{Name: name, open: map[net.Conn]struct{}{}}
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return nil, err
	}
	p, err := listenUDP(port)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	a.l = []io.Closer{l, p}
	go a.accept(l)
	go a.answer(p)
	return a, nil
}

// Stop closes the listeners and every connection.
func (a *App) Stop() {
	for _, l := range a.l {
		_ = l.Close()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.open {
		_ = c.Close()
	}
}

func (a *App) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		a.mu.Lock()
		a.open[c] = struct{}{}
		a.mu.Unlock()
		go func() {
			defer func() {
				a.mu.Lock()
				delete(a.open, c)
				a.mu.Unlock()
				_ = c.Close()
			}()
			a.serve(c)
		}()
	}
}

func (a *App) serve(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		verb, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, _ := strconv.Atoi(arg)
		switch verb {
		case "GET", "HEAD", "POST", "PUT", "DELETE":
			if strings.Contains(arg, " HTTP/") {
				a.serveHTTP(c, r, verb)
				return
			}
		case "who":
			fmt.Fprintf(c, "%s %s\n", a.Name, hostOf(c.RemoteAddr().String()))
		case "up":
			if _, err := io.CopyN(io.Discard, r, int64(n)); err != nil {
				return
			}
			fmt.Fprintln(c, "ok")
		case "down":
			if _, err := io.CopyN(c, zeros{}, int64(n)); err != nil {
				return
			}
		}
	}
}

// serveHTTP answers one request, whatever it asks for, for people who use curl.
// A body that comes along is not read.
func (a *App) serveHTTP(c net.Conn, r *bufio.Reader, method string) {
	for {
		header, err := r.ReadString('\n')
		if err != nil {
			return
		}
		if strings.TrimSpace(header) == "" {
			break
		}
	}
	body := fmt.Sprintf("%s %s\n", a.Name, hostOf(c.RemoteAddr().String()))
	fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", len(body))
	if method != "HEAD" {
		fmt.Fprint(c, body)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func hostOf(address string) string {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return address
	}
	return ap.Addr().Unmap().String()
}

// Answer is what an App said.
type Answer struct {
	Name, Client string
	Took         time.Duration
}

// Ask connects, asks who is there, and closes.
func Ask(ns *netlab.NS, network string, to netip.AddrPort, timeout time.Duration) (Answer, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c, err := ns.Dial(ctx, network, to.String())
	if err != nil {
		return Answer{}, err
	}
	defer c.Close()
	_ = c.SetDeadline(start.Add(timeout))
	if _, err := fmt.Fprintln(c, "who"); err != nil {
		return Answer{}, err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return Answer{}, err
	}
	name, client, _ := strings.Cut(strings.TrimSpace(line), " ")
	return Answer{name, client, time.Since(start)}, nil
}

// Transfer sends and fetches n bytes over one connection.
func Transfer(ns *netlab.NS, to netip.AddrPort, n int, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c, err := ns.Dial(ctx, "tcp", to.String())
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(timeout))
	fmt.Fprintf(c, "up %d\n", n)
	if _, err := io.CopyN(c, zeros{}, int64(n)); err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	r := bufio.NewReader(c)
	if line, err := r.ReadString('\n'); err != nil || line != "ok\n" {
		return fmt.Errorf("upload: answered %q: %w", line, errors.Join(err, errUpload))
	}
	fmt.Fprintf(c, "down %d\n", n)
	if _, err := io.CopyN(io.Discard, r, int64(n)); err != nil {
		return fmt.Errorf("download: %w", err)
	}
	return nil
}

var errUpload = errors.New("upload not confirmed")

// DialHere connects from the namespace of the calling thread.
func DialHere(to netip.AddrPort) (net.Conn, error) { return net.Dial("tcp", to.String()) }
