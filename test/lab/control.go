package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/test/cluster"
)

// nameVariable names a lab, for who wants several at a time.
const nameVariable = "GRIDMESH_LAB"

// address is where the lab of this user takes calls. It is no file, and goes
// with the last process that has it open, however that ends.
func address() *net.UnixAddr {
	name := "@gridmesh-lab-" + strconv.Itoa(os.Getuid())
	if own := os.Getenv(nameVariable); own != "" {
		name += "-" + own
	}
	return &net.UnixAddr{Net: "unix", Name: name}
}

// listen takes the address, outside of the sandbox, whose network is another.
func listen() (*os.File, error) {
	l, err := net.ListenUnix("unix", address())
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("another lab runs; stop it with: lab down, or give this one a name, here and to the commands that talk to it: %s=NAME", nameVariable)
	case err != nil:
		return nil, fmt.Errorf("take the lab's address: %w", err)
	}
	defer l.Close()
	return l.File()
}

// own refuses who is another user: an address without a file has no mode.
func own(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	if e := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil {
		return e
	}
	if err == nil && int(peer.Uid) != os.Getuid() {
		err = fmt.Errorf("user %d is at the lab's address, and not you", peer.Uid)
	}
	return err
}

// server answers people: that the cluster starts, until it has.
type server struct {
	begin   time.Time
	stop    func()
	cluster atomic.Pointer[cluster.Cluster]
	keeper  *keeper    // of the controller; nil where the lab started none
	mu      sync.Mutex // held by who looks at programs and lines, or changes them
}

// startServer answers at the file of listen until ctx ends; stop is what "down"
// calls.
func startServer(ctx context.Context, handed *os.File, stop func()) (*server, error) {
	l, err := net.FileListener(handed)
	if err = errors.Join(err, handed.Close()); err != nil {
		return nil, fmt.Errorf("take calls: %w", err)
	}
	s := &server{begin: time.Now(), stop: stop}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.answer(ctx, conn.(*net.UnixConn))
		}
	}()
	return s, nil
}

// serve lets people at the cluster, and its controller, until ctx ends.
func (s *server) serve(ctx context.Context, c *cluster.Cluster, k *keeper) error {
	s.keeper = k
	s.cluster.Store(c)
	<-ctx.Done()
	return nil
}

// request is a command line and where it was typed; the caller's standard
// files come along.
type request struct {
	Args []string
	Dir  string
}

// call is one request that is being answered.
type call struct {
	ctx    context.Context // ends with the caller
	c      *cluster.Cluster
	keeper *keeper
	dir    string
	files  [3]*os.File
}

// answer does what is asked for and says the exit code. What it started ends
// with the caller.
func (s *server) answer(ctx context.Context, conn *net.UnixConn) {
	if own(conn) != nil {
		_ = conn.Close()
		return
	}
	r, files, err := receive(conn)
	if err != nil {
		_ = conn.Close()
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // a caller says nothing more; when it ends, so does the connection
		_, _ = conn.Read(make([]byte, 1))
		cancel()
	}()
	err = s.do(&call{ctx: ctx, dir: r.Dir, files: files}, r.Args)
	var inside exitCode
	if err != nil && !errors.As(err, &inside) {
		fmt.Fprintln(files[2], "lab:", err)
	}
	for _, f := range files {
		_ = f.Close()
	}
	_, _ = fmt.Fprintln(conn, codeOf(err))
	if len(r.Args) > 0 && r.Args[0] == down {
		return // the end of the connection is the lab's
	}
	_ = conn.Close()
}

func receive(conn *net.UnixConn) (r request, files [3]*os.File, err error) {
	buf, oob := make([]byte, 1<<16), make([]byte, unix.CmsgSpace(3*4))
	n, m, _, _, err := conn.ReadMsgUnix(buf, oob)
	if err != nil {
		return r, files, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:m])
	if err != nil || len(messages) != 1 {
		return r, files, errors.Join(err, errors.New("no files"))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 3 {
		return r, files, errors.Join(err, errors.New("not three files"))
	}
	for i, fd := range fds {
		files[i] = os.NewFile(uintptr(fd), "")
	}
	return r, files, json.Unmarshal(buf[:n], &r)
}

// remote asks the lab that runs, with this process's files. With ctx ends what it runs.
func remote(ctx context.Context, args []string) error {
	return ask(ctx, args, [3]int{0, 1, 2}, time.Time{})
}

// known is what the lab that runs has, "nodes" or "units"; nothing where there
// is none that answers at once.
func known(what string) (list []string) {
	const patience = time.Second
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	defer null.Close()
	answer, to, err := os.Pipe()
	if err != nil {
		return nil
	}
	defer answer.Close()
	err = ask(context.Background(), []string{"names", what}, [3]int{int(null.Fd()), int(to.Fd()), int(null.Fd())}, time.Now().Add(patience))
	if e := to.Close(); err != nil || e != nil {
		return nil
	}
	text, _ := io.ReadAll(answer)
	return strings.Fields(string(text))
}

// ask sends a command line and three files to the lab that runs, and waits for
// its exit code, until an hour where one is given. With ctx it says that it asks no more, and
// waits for the end of what it asked for.
func ask(ctx context.Context, args []string, files [3]int, until time.Time) error {
	conn, err := net.DialUnix("unix", nil, address())
	if err != nil {
		return fmt.Errorf("no lab runs; start one with: lab up, or make demo KEEP=1 (%w)", err)
	}
	defer conn.Close()
	if err := errors.Join(own(conn), conn.SetDeadline(until)); err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	data, err := json.Marshal(request{args, dir})
	if err != nil {
		return err
	}
	rights := syscall.UnixRights(files[:]...)
	if _, _, err := conn.WriteMsgUnix(data, rights, nil); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.CloseWrite() })()
	var code int
	if _, err := fmt.Fscan(conn, &code); err != nil {
		if args[0] == down {
			return nil
		}
		return fmt.Errorf("the lab ended: %w", err)
	}
	if args[0] == down { // and another one may be started at once
		_, _ = conn.Read(make([]byte, 2))
		_, _ = conn.Read(make([]byte, 1))
	}
	if code != 0 {
		return exitCode(code)
	}
	return nil
}
