package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// asksFiles has the test's program ask for files, and say what a child has.
const asksFiles = "LAB_TEST_ASKS_FILES"

func TestMain(m *testing.M) {
	if os.Getenv(asksFiles) == "" {
		os.Exit(m.Run())
	}
	if err := openFiles(); err != nil {
		fmt.Println(err)
		os.Exit(exitFailure)
	}
	out, err := exec.Command("sh", "-c", "ulimit -Sn; ulimit -Hn").CombinedOutput()
	fmt.Print(strings.ReplaceAll(string(out), "\n", " "), err)
}

// Where few files may be opened, that is said, and not left to the program that
// fails first; and what is started may open as many as the hard limit allows.
func TestOpenFiles(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"ulimit -n 64":                        "ulimit -n is 64",
		"ulimit -Sn 100; ulimit -Hn 300":      "300 300 <nil>",
		"ulimit -n " + fmt.Sprint(leastFiles): "256 256 <nil>",
	} {
		cmd := exec.Command("sh", "-c", line+`; exec "$0"`, program)
		cmd.Env = append(os.Environ(), asksFiles+"=1")
		if out, err := cmd.CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("after %s: %v, %q; want %q", line, err, out, want)
		}
	}
}

// A kernel without IPv6 is told apart from one that turns it off.
func TestJudgeIPv6(t *testing.T) {
	for _, c := range []struct {
		socket    error
		off, want string
	}{
		{nil, "0", ""},
		{nil, "", ""},
		{unix.EAFNOSUPPORT, "0", "ipv6.disable=1"},
		{nil, "1", "ipv6.disable_ipv6=1"},
	} {
		err := judgeIPv6(c.socket, c.off)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || !errors.Is(err, c.socket) && c.socket != nil {
			t.Errorf("socket %v, off %q: %v; want %q", c.socket, c.off, err, c.want)
		}
	}
}
