package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// Where a program is missing, it is said which, what is left out for it, and how
// to get it; and CI installs all that is named so.
func TestLeftOut(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	said := strings.Join(leftOut(), "\n")
	for _, want := range []string{
		"pods and on nodes: dig not found", "asks on nodes: curl not found", "old iptables wrote: iptables-legacy, ip6tables-legacy not found", "systemd-analyze not found",
		"rules as nft reads them: nft not found", "real kube-proxy: kube-proxy needs nft",
		"real nodes (kubelet, containerd): containerd, containerd-shim-runc-v2, ctr, runc, nft",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it is not said: %s", want)
		}
	}
	if t.Failed() {
		t.Log(said)
	}
	script, err := os.ReadFile(filepath.Join(edge.Root(), ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`apt-get install [^\n]*--no-install-recommends ([a-z0-9 -]+)`).FindSubmatch(script)
	if m == nil {
		t.Fatal(".ci/run installs nothing")
	}
	installed := strings.Fields(string(m[1]))
	for _, named := range regexp.MustCompile(`\(apt-get install ([^)]+)\)`).FindAllStringSubmatch(said, -1) {
		for _, pkg := range strings.Fields(named[1]) {
			if !slices.Contains(installed, pkg) {
				t.Errorf(".ci/run does not install %s", pkg)
			}
		}
	}
}

// runCI runs .ci/run with go, make and apt-get that only say so, and returns what
// they and it said. What apt-get cannot cure is said as what is left out.
func runCI(t *testing.T, curable, incurable string) (said string, passed bool) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range map[string]string{
		"go":      `if [ -e "$0.cured" ]; then printf '%s' "$INCURABLE"; else printf '%s' "$CURABLE$INCURABLE"; fi`,
		"apt-get": `[ -z "$APT" ] || exit 100; echo "apt-get $1" >&2; : >"${0%/*}/go.cured"`,
		"make":    `echo "make $1"`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(edge.Root(), ".ci", "run"))
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "CURABLE="+curable, "INCURABLE="+incurable)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// CI is red where anything is left out, before hours of tests; what is only not
// installed it installs.
func TestCILeavesNothingOut(t *testing.T) {
	if said, passed := runCI(t, "", ""); !passed || said != "make test\nmake conformance-slice\nmake lint\n" {
		t.Errorf("with nothing left out: passed %v: %s", passed, said)
	}
	if said, passed := runCI(t, "LEFT OUT: a, no b\n", ""); !passed || said != "apt-get update\napt-get install\nmake test\nmake conformance-slice\nmake lint\n" {
		t.Errorf("with a program that is installed: passed %v: %s", passed, said)
	}
	t.Setenv("APT", "no network")
	if said, passed := runCI(t, "LEFT OUT: a, no b\n", ""); passed || !strings.Contains(said, "apt-get failed\nLEFT OUT: a, no b\n") {
		t.Errorf("where nothing can be installed: passed %v: %s", passed, said)
	}
	t.Setenv("APT", "")
	said, passed := runCI(t, "LEFT OUT: a, no b\n", "LEFT OUT: real nodes, no root\n")
	if passed || strings.Contains(said, "make") || strings.Contains(said, "no b") || !strings.Contains(said, "LEFT OUT: real nodes, no root\n") {
		t.Errorf("without root: passed %v: %s", passed, said)
	}
}

// People's "make test" goes on, and says before the tests what it leaves out.
func TestMakeSaysWhatIsLeftOut(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "make", "-n", "cluster-test")
	cmd.Dir = edge.Root()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	says, tests := strings.Index(string(out), "bin/lab-worker left-out\n"), strings.LastIndex(string(out), "go test")
	if says < 0 || says > tests {
		t.Errorf("left-out is called at %d, the tests at %d, of:\n%s", says, tests, out)
	}
}
