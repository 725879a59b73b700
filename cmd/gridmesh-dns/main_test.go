package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/coredns/caddy"
)

// A directive without its plugin is an error in every Corefile that has it.
func TestDirectivesHavePlugins(t *testing.T) {
	for _, name := range directives {
		if _, err := caddy.DirectiveAction("dns", name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCleanupOfNoAddress(t *testing.T) {
	if code := cleanup([]string{"169.254.20.10", "lo"}); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
}

// What is no command is a mistake in the arguments, as in the other programs.
func TestWords(t *testing.T) {
	for arg, want := range map[string]int{"nonsense": 2, "clenup": 2, "": 2, "-conf": -1, "--help": -1} {
		if code, ends := word(arg); ends != (want >= 0) || ends && code != want {
			t.Errorf("%q: exit code %d, ends %v; want %d", arg, code, ends, want)
		}
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
		"-conf elsewhere":      "",
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
