package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"
)

// What this test's binary does as a process of its own, by the name in
// childEnv.
var children = map[string]func(arg string) error{
	"listen": func(path string) error {
		if _, err := ListenUnix(path, slog.Default()); err != nil {
			return err
		}
		fmt.Println("up")
		select {}
	},
	"peer": func(path string) error {
		l, err := ListenUnix(path, slog.Default())
		if err != nil {
			return err
		}
		fmt.Println("up")
		conn, err := l.Accept()
		if err == nil {
			fmt.Printf("%q\n", peerOf(conn.(*boundConn).Conn))
			os.Exit(0)
		}
		return err
	},
	"lock": func(path string) error {
		if _, err := Lock(path); err != nil {
			return err
		}
		fmt.Println("up")
		select {}
	},
	"panic": func(string) error {
		var g Group
		g.Add("steady", func(ctx context.Context) error { <-ctx.Done(); return nil })
		g.Add("broken", func(context.Context) error { panic("this is why") })
		return g.Run(context.Background())
	},
	"stubborn": func(string) error {
		os.Exit(Main(told(func() { fmt.Println("told"); select {} }), nil))
		return nil
	},
	"twice": func(string) error {
		os.Exit(Main(told(func() {
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
			time.Sleep(50 * time.Millisecond) // it would be dead by then
		}), nil))
		return nil
	},
}

// told is a command that says "up", and does something when it is told to stop.
func told(then func()) *cobra.Command {
	cmd := &cobra.Command{Use: "x", RunE: func(cmd *cobra.Command, _ []string) error {
		fmt.Println("up")
		<-cmd.Context().Done()
		then()
		return nil
	}}
	cmd.SetArgs(nil)
	return cmd
}

const childEnv = "RUN_TEST_CHILD"

func TestMain(m *testing.M) {
	if child, ok := children[os.Getenv(childEnv)]; ok {
		fmt.Fprintln(os.Stderr, child(strings.Join(os.Args[1:], "")))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// child prepares this binary as a process that does what name says.
func child(t *testing.T, name, arg string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], arg)
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	return cmd
}

// killed runs a child until it is up, and kills it.
func killed(t *testing.T, name, arg string) {
	t.Helper()
	cmd := child(t, name, arg)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 2)); err != nil {
		t.Errorf("the child did not come up: %v", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// Who does not end when it is told to, dies when it is told again; the same
// signal twice in a moment is one.
func TestTheSecondSignalKills(t *testing.T) {
	for name, want := range map[string]string{"stubborn": "signal: terminated", "twice": "<nil>"} {
		cmd := child(t, name, "")
		cmd.Args = cmd.Args[:1]
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 3)); err != nil {
			t.Errorf("the child did not come up: %v", err)
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if name == "stubborn" {
			if _, err := out.Read(make([]byte, 5)); err != nil {
				t.Errorf("the first signal: %v", err)
			}
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		tick, late := time.NewTicker(50*time.Millisecond), time.After(30*time.Second)
		for waiting := true; waiting; {
			select {
			case err := <-ended:
				if got := fmt.Sprint(err); got != want {
					t.Errorf("%s: %s, want %s", name, got, want)
				}
				waiting = false
			case <-tick.C:
				if name == "stubborn" {
					_ = cmd.Process.Signal(syscall.SIGTERM)
				}
			case <-late:
				t.Errorf("%s goes on", name)
				_ = cmd.Process.Kill()
				<-ended
				waiting = false
			}
		}
		tick.Stop()
	}
}

func TestExitCodes(t *testing.T) {
	args := os.Args
	defer func() { os.Args = args }()
	more := func(err error) int {
		if errors.Is(err, ErrInUse) {
			return 3
		}
		return 0
	}
	for _, tc := range []struct {
		name string
		args []string
		err  error
		more func(error) int
		want int
	}{
		{"fine", nil, nil, nil, 0},
		{"failure", nil, net.ErrClosed, more, 1},
		{"usage", nil, fmt.Errorf("%w: no", ErrUsage), more, 2},
		{"unknown flag", []string{"--no-such-flag"}, nil, nil, 2},
		{"unknown command", []string{"bogus"}, nil, nil, 2},
		{"unknown argument of a command", []string{"sub", "bogus"}, nil, nil, 2},
		{"a code of its own", nil, fmt.Errorf("start: %w", ErrInUse), more, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			os.Args = append([]string{"x"}, tc.args...)
			root := &cobra.Command{Use: "x", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return tc.err }}
			root.AddCommand(&cobra.Command{Use: "sub", Args: cobra.NoArgs, Run: func(*cobra.Command, []string) {}})
			if got := Main(root, tc.more); got != tc.want {
				t.Errorf("exit code %d, want %d", got, tc.want)
			}
		})
	}
}

// Who mistypes a command is told which there are, and who leaves something out
// how it is written.
func TestUnknownCommandsAreNamed(t *testing.T) {
	run := func(*cobra.Command, []string) {}
	tree := func() *cobra.Command {
		root := &cobra.Command{Use: "x", Args: cobra.NoArgs, Run: run, SilenceErrors: true, SilenceUsage: true}
		show := &cobra.Command{Use: "show NAME", Args: cobra.ExactArgs(1), Run: run, Example: "  x show web --to a\n  x show db --to b"}
		show.Flags().String("to", "", "")
		_ = show.MarkFlagRequired("to")
		root.AddCommand(&cobra.Command{Use: "status", Args: cobra.NoArgs, Run: run}, &cobra.Command{Use: "cleanup", Args: cobra.NoArgs, Run: run}, show)
		sayUsage(root)
		return root
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"bogus"}, `wrong flags: unknown command "bogus" for "x"; it has cleanup, completion, show, status: x --help`},
		{[]string{"sttus"}, `did you mean status? it has cleanup, completion, show, status: x --help`},
		{[]string{"status", "now"}, `unknown command "now" for "x status"; it takes no commands: x status --help`},
		{[]string{"show"}, "wrong flags: accepts 1 arg(s), received 0\nrequired flag(s) \"to\" not set; say: x show NAME; for example: x show web --to a"},
		{[]string{"show", "web"}, `wrong flags: required flag(s) "to" not set; say: x show NAME; for example: x show web --to a`},
	} {
		root := tree()
		root.SetArgs(tc.args)
		if err := root.Execute(); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want %q", tc.args, err, tc.want)
		}
	}
}
