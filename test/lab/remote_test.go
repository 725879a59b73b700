package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A request comes with its arguments, where it was typed, and three files.
func TestRequest(t *testing.T) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	conns := [2]*net.UnixConn{}
	for i, fd := range pair {
		f := os.NewFile(uintptr(fd), "")
		c, err := net.FileConn(f)
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns[i] = c.(*net.UnixConn)
	}
	data, err := json.Marshal(request{[]string{"kubectl", "apply"}, "/somewhere"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := conns[0].WriteMsgUnix(data, syscall.UnixRights(0, 1, 2), nil); err != nil {
		t.Fatal(err)
	}
	r, files, err := receive(conns[1])
	if err != nil || r.Dir != "/somewhere" || strings.Join(r.Args, " ") != "kubectl apply" {
		t.Errorf("%+v, %v", r, err)
	}
	for _, f := range files {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A second lab is refused before it builds anything.
func TestAlone(t *testing.T) {
	dir := t.TempDir() // not below /run, where the sandbox has a file system of its own
	t.Setenv("XDG_RUNTIME_DIR", dir)
	if err := alone(); err != nil {
		t.Errorf("nobody is there: %v", err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "control.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := alone(); err == nil || !strings.Contains(err.Error(), "lab down") {
		t.Errorf("somebody is there: %v", err)
	}
}
