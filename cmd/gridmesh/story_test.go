package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/gridmesh/gridmesh/internal/run"
)

var update = flag.Bool("update", false, "rewrite the stories' expected output")

// TestMain is the program itself where it is called so: "exec gridmesh" in a
// story starts it as a process.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "gridmesh" {
		main()
	}
	os.Exit(withProgram(func() int {
		code := m.Run()
		// A pipe that nobody writes to is waited for until the process ends.
		waits := goleak.IgnoreAnyFunction("github.com/gridmesh/gridmesh/cmd/gridmesh.(*reach).once.func1")
		if err := goleak.Find(waits); code == 0 && err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}))
}

// withProgram has gridmesh found in the path while it runs, and no agent of this
// machine by gridmesh.
func withProgram(tests func() int) int {
	dir, err := os.MkdirTemp("", "gridmesh")
	if err == nil {
		defer os.RemoveAll(dir)
		feedSocket, stateDir = filepath.Join(dir, "feed.sock"), filepath.Join(dir, "state")
		var self string
		if self, err = os.Executable(); err == nil {
			err = os.Symlink(self, filepath.Join(dir, "gridmesh"))
		}
	}
	if err == nil {
		err = os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return tests()
}

// inside lets one story's command run at a time: the directory and the
// environment are the process's.
var inside sync.Mutex

// variables are what the program reads of its environment.
var variables = []string{"HOME", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"}

// called runs the program in this process: what main does, with the story's
// directory, environment and streams. A process takes a hundred times as long.
func called(ts *testscript.TestScript, neg bool, args []string) {
	inside.Lock()
	defer inside.Unlock()
	home, err := os.Getwd()
	ts.Check(errors.Join(err, os.Chdir(ts.MkAbs("."))))
	defer func() { ts.Check(os.Chdir(home)) }()
	for _, name := range variables {
		old, had := os.LookupEnv(name)
		ts.Check(os.Setenv(name, ts.Getenv(name)))
		defer func() {
			if os.Setenv(name, old); !had {
				os.Unsetenv(name)
			}
		}()
	}
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(""))
	cmd.SetOut(ts.Stdout())
	cmd.SetErr(ts.Stderr())
	if code := run.Main(cmd, nil); (code != 0) != neg {
		ts.Fatalf("gridmesh %s: exit code %d", strings.Join(args, " "), code)
	}
}

// Each story is manifests in, a table out: read them to learn a feature.
func TestStories(t *testing.T) {
	dir, err := filepath.Abs("testdata/story") // while a command runs, the directory is its story's
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: dir, UpdateScripts: *update,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"gridmesh": called},
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", "atexit_sleep_ms=0") // or each process takes a second
			return nil
		},
	})
}
