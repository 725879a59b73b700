package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/run"
)

// What is there and is no file is written to: a rename over it would take
// /dev/null or /dev/stdout from all of the machine.
func TestBootstrapLeavesWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	c, err := completed(t, "--node-name", "a-1")
	if err != nil {
		t.Fatal(err)
	}
	printTo := func(output string) string {
		t.Helper()
		var out bytes.Buffer
		c.output = output
		if err := printBootstrap(&out, c); err != nil {
			t.Errorf("%s: %v", output, err)
		}
		return out.String()
	}
	want := printTo("")
	t.Chdir(dir)
	if got := printTo("-"); got != want {
		t.Errorf("- is not standard output, which has %q", got)
	}
	if list, _ := os.ReadDir("."); len(list) > 0 {
		t.Errorf("files were made: %v", list)
	}
	if err := errors.Join(os.WriteFile("target", []byte(strings.Repeat("x", 2*len(want))), 0o600), os.Symlink("target", "link"), syscall.Mkfifo("pipe", 0o600)); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open("link") // as of an Envoy that is starting
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	printTo("link")
	if text, err := os.ReadFile("target"); err != nil || string(text) != want {
		t.Errorf("behind the link is %q, %v", text, err)
	}
	if text, err := io.ReadAll(reader); err != nil || string(text) != strings.Repeat("x", 2*len(want)) {
		t.Errorf("who reads meanwhile has %q, %v", text, err)
	}
	stdout, err := os.OpenFile("log", os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	if err := os.Symlink(fmt.Sprintf("/proc/self/fd/%d", stdout.Fd()), "stdout"); err != nil {
		t.Fatal(err)
	}
	printTo("stdout")
	if text, err := io.ReadAll(stdout); err != nil || string(text) != want {
		t.Errorf("who has the file open finds %q, %v", text, err)
	}
	read := make(chan string)
	pipe, err := os.OpenFile("pipe", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	go func() {
		text := make([]byte, len(want))
		_, _ = io.ReadFull(pipe, text)
		read <- string(text)
	}()
	printTo("pipe")
	for name, mode := range map[string]os.FileMode{"link": os.ModeSymlink, "pipe": os.ModeNamedPipe} {
		if info, err := os.Lstat(name); err != nil || info.Mode().Type() != mode {
			t.Fatalf("%s became %v, %v", name, info.Mode(), err)
		}
	}
	if got := <-read; got != want {
		t.Errorf("the pipe has %q", got)
	}
}

func TestHostsFilesAreFiles(t *testing.T) {
	link := filepath.Join(t.TempDir(), "hosts")
	if err := os.Symlink("/dev/null", link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/dev/null", link} {
		_, err := completed(t, "--node-name", "a-1", "--hosts-file", path)
		if !errors.Is(err, run.ErrUsage) || !strings.Contains(err.Error(), "--hosts-file "+path+" is no file of its own") ||
			strings.Contains(err.Error(), "behind the link") != (path == link) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// sysctlDir has, in --state-dir, the values of sysctls as they were.
const sysctlDir = capture.SysctlDir

// Two flags of one path: one of the two would be lost.
func TestPathsAreUsedOnce(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, tc := range []struct{ a, at, b, also string }{
		{"--hosts-file", in("state"), "--state-dir", dir},
		{"--hosts-file", in("lock"), "--state-dir", dir},
		{"--hosts-file", in(sysctlDir), "--state-dir", dir},
		{"--xds-socket", in("contact"), "--state-dir", dir + "/./"},
		{"--xds-socket", in("s"), "--status-socket", in("s")},
		{"--feed-socket", in("s"), "--admin-socket", in("x/../s")},
		{"--hosts-file", in("k"), "--kubeconfig", in("k")},
		{"--hosts-file", in("m.yaml"), "--manifests", in("m.yaml")},
	} {
		_, err := completed(t, "--node-name", "a-1", tc.a, tc.at, tc.b, tc.also)
		if !errors.Is(err, run.ErrUsage) || !strings.Contains(err.Error(), tc.a) || !strings.Contains(err.Error(), tc.b) || !strings.Contains(err.Error(), "choose another") {
			t.Errorf("%s %s %s %s: %v", tc.a, tc.at, tc.b, tc.also, err)
		}
	}
	if _, err := completed(t, "--node-name", "a-1", "--state-dir", dir, "--manifests", dir, "--hosts-file", in("hosts"), "--xds-socket", in("x.sock")); err != nil {
		t.Errorf("of one directory: %v", err)
	}
	c, err := completed(t, "--node-name", "a-1", "--xds-socket", in("x.sock"))
	if err != nil {
		t.Fatal(err)
	}
	c.output = in("x.sock")
	if err := printBootstrap(io.Discard, c); !errors.Is(err, run.ErrUsage) || !strings.Contains(err.Error(), "--output") {
		t.Errorf("--output: %v", err)
	}
}
