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
