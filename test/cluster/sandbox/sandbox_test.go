package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// writes has the test's program write lines inside a sandbox, for ever.
const writes = "SANDBOX_TEST_WRITES"

func TestMain(m *testing.M) {
	if os.Getenv(writes) == "" {
		os.Exit(m.Run())
	}
	Run(func() int {
		for {
			fmt.Println("a line")
			time.Sleep(time.Millisecond)
		}
	})
}

func writer() *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), writes+"=1")
	return cmd
}

// A reader that leaves, as of "| head -1", is a failure and no mistake of usage.
func TestReaderLeaves(t *testing.T) {
	cmd := writer()
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() }).Stop()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Errorf("inside wrote %q: %v", line, err)
	}
	_ = out.Close()
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("ended with %v, want exit code 1", err)
	}
}

// Root of an ordinary container is told what it has not, and the ways out.
func TestRootWithoutCapabilities(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, whose capabilities are taken; who is not root needs none")
	}
	var out []byte
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with what it lost
		for _, c := range needed {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c.bit), 0, 0, 0); err != nil {
				ended <- err
				return
			}
		}
		var err error
		out, err = writer().CombinedOutput()
		ended <- err
	}()
	var exit *exec.ExitError
	if err := <-ended; !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("ended with %v, want exit code 1", err)
	}
	for _, want := range []string{"CAP_SYS_ADMIN and CAP_NET_ADMIN", "--privileged", "ordinary user"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
}

func TestLacking(t *testing.T) {
	const all = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_NET_ADMIN
	for effective, want := range map[uint64][]string{
		all:                              nil,
		1<<41 - 1:                        nil,
		all &^ (1 << unix.CAP_NET_ADMIN): {"CAP_NET_ADMIN"},
		0xa80425fb:                       {"CAP_SYS_ADMIN", "CAP_NET_ADMIN"}, // an ordinary container
	} {
		if got := lacking(effective); !slices.Equal(got, want) {
			t.Errorf("of %#x: %v, want %v", effective, got, want)
		}
	}
}
