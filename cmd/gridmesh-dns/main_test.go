package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
)

// asProgram in the environment makes the test binary the program itself.
const asProgram = "GRIDMESH_DNS_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// A directive without its plugin is an error in every Corefile that has it.
func TestDirectivesHavePlugins(t *testing.T) {
	for _, name := range directives {
		if _, err := caddy.DirectiveAction("dns", name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCleanupOfNoAddress(t *testing.T) {
	for _, wrong := range []string{"lo", "127.0.0.1"} {
		if code := cleanup([]string{"169.254.20.10", wrong}); code != 2 {
			t.Errorf("%s: exit code %d, want 2", wrong, code)
		}
	}
}

// What is wrong in the arguments ends with 2 and one line that says where to look,
// as in the other programs; what is asked for is printed.
func TestArguments(t *testing.T) {
	for line, want := range map[string]struct {
		code   int
		stderr string // a line; "" for none
		stdout string // a part
	}{
		"nonsense":        {code: 2, stderr: `gridmesh-dns: there is no command "nonsense"; it has cleanup: gridmesh-dns -help`},
		"completion bash": {code: 2, stderr: "gridmesh-dns: there is no completion: the flags are CoreDNS', and gridmesh-dns -help lists them"},
		"help nope":       {code: 2, stderr: `gridmesh-dns: help knows nothing of "nope"; see gridmesh-dns -help`},
		"-nope":           {code: 2, stderr: "gridmesh-dns: flag provided but not defined: -nope; gridmesh-dns -help lists the flags"},
		"-conf":           {code: 2, stderr: "gridmesh-dns: flag needs an argument: -conf; gridmesh-dns -help lists the flags"},
		"-quiet=what":     {code: 2, stderr: `gridmesh-dns: invalid boolean value "what" for -quiet: parse error; gridmesh-dns -help lists the flags`},
		"-quiet extra":    {code: 2, stderr: `gridmesh-dns: "extra" is no flag; say: gridmesh-dns -conf Corefile`},
		"help":            {stdout: "Corefile to load"},
		"-h":              {stdout: "Corefile to load"},
		"-quiet --help":   {stdout: "Corefile to load"},
		"help cleanup":    {stdout: "gridmesh-dns cleanup [ADDRESS...]"},
		"cleanup -h":      {stdout: "gridmesh-dns cleanup [ADDRESS...]"},
		"-plugins":        {stdout: "\ngrid\n"},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], strings.Fields(line)...)
		cmd.Env = append(os.Environ(), asProgram+"=1")
		cmd.Dir = t.TempDir()
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		_ = cmd.Run() // its exit code tells
		if want.stderr != "" {
			want.stderr += "\n"
		}
		if code := cmd.ProcessState.ExitCode(); code != want.code || stderr.String() != want.stderr || !strings.Contains(stdout.String(), want.stdout) || want.code != 0 && stdout.Len() > 0 {
			t.Errorf("gridmesh-dns %s: exit code %d, stderr %q, stdout %q", line, code, stderr.String(), stdout.String())
		}
	}
}

// The line grid of deploy/dns.yaml without its domain, as in a pod that has the Corefile before
// it has the environment, is refused: a server that runs then keeps what it has.
func TestNoDomainIsNoZone(t *testing.T) {
	manifest, err := os.ReadFile("../../deploy/dns.yaml")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^ +grid .*\{\$CLUSTER_DOMAIN\}.* \{$`).Find(manifest)
	if line == nil {
		t.Fatal("deploy/dns.yaml has no line grid that asks for its domain")
	}
	path := filepath.Join(t.TempDir(), "Corefile")
	if err := os.WriteFile(path, fmt.Appendf(nil, ".:0 {\n%s\n}\n}\n", line), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // of one that runs, which is the fault
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-conf", path)
	cmd.Env = append(os.Environ(), asProgram+"=1", "CLUSTER_DOMAIN=")
	said, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); err == nil || code != 1 || !strings.Contains(string(said), `grid answers no names of the zone "."`) {
		t.Errorf("exit code %d: %s", code, said)
	}
}

// A start that cannot be meant is refused, before CoreDNS looks for what to serve
// by itself.
func TestStartsThatCannotBeMeant(t *testing.T) {
	t.Chdir(t.TempDir())
	for line, want := range map[string]string{
		"":                     "there is no Corefile here",
		"-quiet":               "there is no Corefile here",
		"-conf Corefile extra": `"extra" is no flag`,
		"-conf elsewhere":      "the Corefile of -conf: stat elsewhere",
		"-conf stdin":          "",
		"-plugins":             "",
	} {
		flags := flag.NewFlagSet("gridmesh-dns", flag.ContinueOnError)
		flags.String("conf", "", "")
		flags.Bool("plugins", false, "")
		flags.Bool("quiet", false, "")
		if err := flags.Parse(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
		if err := unmeant(flags); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("gridmesh-dns %s: %v, want %q", line, err, want)
		}
	}
	if err := os.WriteFile("Corefile", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unmeant(flag.NewFlagSet("gridmesh-dns", flag.ContinueOnError)); err != nil {
		t.Errorf("beside a Corefile: %v", err)
	}
}
