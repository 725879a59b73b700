package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster/netlab"
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

// A second lab is refused before it builds anything, one with a name is not,
// and the address is free again with the last file.
func TestAddress(t *testing.T) {
	t.Setenv(nameVariable, t.Name())
	f, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listen(); err == nil || !strings.Contains(err.Error(), "lab down") {
		t.Errorf("somebody is there: %v", err)
	}
	t.Setenv(nameVariable, t.Name()+"-2")
	second, err := listen()
	if err != nil {
		t.Errorf("nobody of that name is there: %v", err)
	} else {
		_ = second.Close()
	}
	t.Setenv(nameVariable, t.Name())
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if f, err = listen(); err != nil {
		t.Fatalf("nobody is there any more: %v", err)
	}
	_ = f.Close()
}

// starting is a lab whose cluster does not run yet, and what ends with it.
func starting(t *testing.T) (*server, context.Context) {
	t.Helper()
	f, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	s, err := startServer(ctx, f, stop)
	if err != nil {
		t.Fatal(err)
	}
	return s, ctx
}

// While the cluster starts, people are told so; "down" ends that, too.
func TestStarting(t *testing.T) {
	t.Setenv(nameVariable, t.Name())
	s, ctx := starting(t)
	for _, tc := range []struct {
		args []string
		code int
	}{{[]string{"status"}, exitFailure}, {[]string{"cut", "uplink", "a"}, exitFailure}, {nil, exitUsage}, {[]string{down}, 0}} {
		if got := codeOf(s.do(&call{ctx: ctx}, tc.args)); got != tc.code {
			t.Errorf("%q: exit code %d, want %d", tc.args, got, tc.code)
		}
	}
	if ctx.Err() == nil {
		t.Error("it was told to stop, and did not")
	}
}

// What does not exist is a mistake of who typed it, and they are told what does.
func TestCutNamesWhatThereIs(t *testing.T) {
	a, z := &netlab.Unit{Name: "a"}, &netlab.Unit{Name: "b"}
	a.Nodes = []*netlab.Node{{Name: "a-1", Unit: a}}
	lab := &netlab.Lab{Units: []*netlab.Unit{a, z}}
	for line, want := range map[string]string{
		"uplink z":    `unit "z"; there are a, b`,
		"node a-9":    `node "a-9"; there are a-1`,
		"link a z":    `unit "z"; there are a, b`,
		"link a b":    "a link of a and b; there are none",
		"link a":      `"link a" is no line; say: uplink UNIT, uplink NODE, peers NODE, node NODE, or link UNIT UNIT`,
		"uplink a b":  "say: uplink UNIT",
		"router a":    "say: uplink UNIT",
		"node a-1 b1": "say: uplink UNIT",
	} {
		err := cut(lab, true, strings.Fields(line))
		if err == nil || !strings.Contains(err.Error(), want) || codeOf(err) != exitUsage {
			t.Errorf("cut %s: exit code %d: %v\nwant %s", line, codeOf(err), err, want)
		}
	}
}

// The hint about the stand-in is for what only a kubelet can do.
func TestHintOnlyWhereItHelps(t *testing.T) {
	for said, want := range map[string]bool{
		`Error from server: Get "https://10.20.1.10:10250/containerLogs/default/web/app": dial tcp 10.20.1.10:10250: connect: connection refused`: true,
		`Error from server (NotFound): pods "web" not found`:                false,
		"error: unknown flag: --tial\nSee 'kubectl logs --help' for usage.": false,
	} {
		if got := kubeletCall.MatchString(said); got != want {
			t.Errorf("%s: %v, want %v", said, got, want)
		}
	}
}
