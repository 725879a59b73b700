package main

import (
	"bytes"
	"strings"
	"testing"
)

// What monitoring asks for: a line on standard output, and a code.
func TestStatusCheck(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	check := func(code int, want string, args ...string) {
		t.Helper()
		cmd := p.agent("a", append([]string{"status", "--check"}, args...)...)
		var said, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &errs
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != code || !strings.HasPrefix(said.String(), want) || strings.Count(said.String(), "\n") != 1 || errs.Len() > 0 {
			t.Errorf("%v: exit code %d, want %d; %q, want one line %q; beside it %q", args, got, code, said.String(), want, errs.String())
		}
	}
	check(2, "gridmesh-agent: unknown: no agent answers on "+p.dir)
	if out := p.ends(p.agent("a", "status"), 1); !strings.Contains(out, "None has kept a state in "+p.dir) || !strings.Contains(out, "start it, as docs/install.md says") ||
		strings.Contains(out, "gridmesh view") {
		t.Errorf("where none ran: %s", out)
	}
	check(2, "gridmesh-agent: unknown: wrong flags: -o \"x\" is not known", "-o", "x")
	stop := p.serves("a", "--manifests", p.manifests(), "--datapath", "envoy")
	check(1, "gridmesh-agent: degraded: no Envoy is connected")
	if out := p.ends(p.agent("a", "status", "--check", "-o", "json"), 1); !strings.Contains(out, `"envoys": []`) || !strings.Contains(out, "\ngridmesh-agent: degraded: no Envoy is connected") {
		t.Errorf("as JSON: %s", out)
	}
	p.ends(p.agent("a", "status"), 0) // as it is, whatever is wrong
	stop()
	check(2, "gridmesh-agent: unknown: no agent answers on "+p.dir)
	if out := p.ends(p.agent("a", "status"), 1); !strings.Contains(out, "no agent answers on "+p.dir) || strings.Contains(out, "http://") ||
		!strings.Contains(out, "its log says why") || !strings.Contains(out, "gridmesh view --state-dir "+p.dir) {
		t.Errorf("without an agent: %s", out)
	}
}

// An empty path is a variable that is not set: Envoy would start with an old file.
func TestBootstrapToNowhere(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if out := p.ends(p.agent("a", "bootstrap", "--output="), 2); !strings.Contains(out, "--output is empty") {
		t.Errorf("it says: %s", out)
	}
}
