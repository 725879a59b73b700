package main

import (
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
