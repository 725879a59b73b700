package soak

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
	"github.com/gridmesh/gridmesh/test/soak/script"
)

// What the environment says of a soak; make soak sets it.
const (
	seedVariable   = "SOAK_SEED"   // another list than today's
	lengthVariable = "SOAK_FOR"    // another length than a minute
	stepsVariable  = "SOAK_STEPS"  // a file with steps to play instead
	shrinkVariable = "SOAK_SHRINK" // how many runs shrinking may take
	playVariable   = "GRIDMESH_SOAK_PLAY"
	aTest          = "a test" // instead of a file
)

// Exit codes of a run.
const (
	passed   = 0
	violated = 10
	failed   = 11 // it could not be made
)

// TestMain runs the tests outside a sandbox, and each list of steps in one of
// its own: a process that plays a file. A test that needs a network without a
// cluster is run again inside one.
func TestMain(m *testing.M) {
	switch path := os.Getenv(playVariable); path {
	case "":
		os.Exit(m.Run())
	case aTest:
		sandbox.Run(m.Run)
	default:
		sandbox.Run(func() int { return play(path) })
	}
}

// play plays a file in this process's sandbox.
func play(path string) int {
	kube.LogTo(slog.New(slog.DiscardHandler)) // before any client runs: it is global
	begin := time.Now()
	say := func(format string, args ...any) {
		fmt.Printf("[%6.1fs] %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}
	err := playFile(path, say)
	var v *Violation
	switch {
	case err == nil:
		return passed
	case errors.As(err, &v):
		fmt.Printf("%s%s\n%v\n", violationAt, v.At, err)
		return violated
	}
	fmt.Println("the run could not be made:", err)
	return failed
}

const violationAt = "violated after the step at "

func playFile(path string, say func(string, ...any)) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	steps, err := script.Parse(script.Small(), string(text))
	if err != nil {
		return err
	}
	ctx := context.Background()
	starting, cancel := context.WithTimeout(ctx, 2*wait.Patience)
	defer cancel()
	s, err := Up(starting, say)
	if err != nil {
		return fmt.Errorf("start the cluster: %w", unviolated{err})
	}
	if err := s.Play(ctx, steps); err != nil {
		return errors.Join(err, s.logs())
	}
	if err := s.Fresh(ctx); err != nil {
		return errors.Join(at(steps[max(0, len(steps)-1)].At, err), s.logs())
	}
	return s.Plants(ctx)
}

// logs are the ends of what programs wrote: long ones of both controllers', who
// write of all objects, and short ones of what runs on nodes.
func (s *Soak) logs() error {
	var b strings.Builder
	for _, p := range []*edge.Process{s.c.ControllerManager(), s.controller} {
		fmt.Fprintf(&b, "--- %s\n%s\n", p.Name, lastLines(p.Log(), 32<<10))
	}
	for _, p := range s.programs() {
		if p != s.controller {
			fmt.Fprintf(&b, "--- %s\n%s\n", p.Name, lastLines(p.Log(), 4<<10))
		}
	}
	return errors.New(b.String())
}

// A minute of everything that can go wrong, by a seed of its own, or what make
// soak asks for. What fails is shrunk and printed, to be played again.
func TestSoak(t *testing.T) {
	seed, length, runs, err := settings()
	if err != nil {
		t.Fatal(err)
	}
	steps := script.Generate(seed, script.Small(), length)
	how := fmt.Sprintf("make soak SEED=%d FOR=%s", seed, length)
	if path := os.Getenv(stepsVariable); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if steps, err = script.Parse(script.Small(), string(text)); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		how = "make soak STEPS=" + path
	}
	t.Logf("%s: %d steps; verbs left out: %q", how, len(steps), script.LeftOut())
	code, end, out := run(t, steps)
	switch code {
	case passed:
		t.Log(summary(out))
		return
	case failed:
		t.Fatalf("%s\n%s", how, out)
	}
	if _, rest, ok := strings.Cut(out, violationAt); ok && testing.Verbose() { // the rest was shown
		out = violationAt + rest
	}
	t.Errorf("violated, by %s\n%s", how, out)
	steps = script.Until(steps, end)
	if runs > 0 {
		steps = script.Shrink(steps, runs, func(list []script.Step) bool {
			code, _, _ := run(t, list)
			t.Logf("shrinking: %d steps, violated: %v", len(list), code == violated)
			return code == violated
		})
	}
	path := filepath.Join(edge.Root(), "bin", fmt.Sprintf("soak-%d.steps", seed))
	if err := os.WriteFile(path, []byte(script.Print(steps)), 0o644); err != nil {
		t.Error(err)
	}
	t.Errorf("play it again by: make soak STEPS=%s\n%s", path, script.Print(steps))
}

// settings reads the environment.
func settings() (seed uint64, length time.Duration, runs int, err error) {
	var errs [3]error
	// Another list each day, and the same all day long.
	seed, errs[0] = strconv.ParseUint(cmp.Or(os.Getenv(seedVariable), strconv.FormatInt(time.Now().Unix()/86400, 10)), 10, 64)
	length, errs[1] = time.ParseDuration(cmp.Or(os.Getenv(lengthVariable), "1m"))
	runs, errs[2] = strconv.Atoi(cmp.Or(os.Getenv(shrinkVariable), "0"))
	if length <= 0 || length > 24*time.Hour {
		errs[1] = errors.Join(errs[1], fmt.Errorf("%s %s: between 1s and 24h", lengthVariable, length))
	}
	return seed, length, runs, errors.Join(errs[:]...)
}

// run plays steps in a process of its own, and returns how that ended, and at
// which step.
func run(t *testing.T, steps []script.Step) (code int, end time.Duration, out string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "steps")
	if err := os.WriteFile(path, []byte(script.Print(steps)), 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	var w io.Writer = &b
	if testing.Verbose() { // twenty minutes are long
		w = io.MultiWriter(&b, os.Stdout)
	}
	err := inside(w, path)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return passed, 0, b.String()
	case !errors.As(err, &exit) || exit.ExitCode() != violated:
		return failed, 0, b.String()
	}
	_, rest, _ := strings.Cut(b.String(), violationAt)
	first, _, _ := strings.Cut(rest, "\n")
	if end, err = time.ParseDuration(first); err != nil {
		end = 24 * time.Hour
	}
	return violated, end, b.String()
}

// inside starts this program in a sandbox, to play a file or to run a test. It
// ends with this thread, and with it everything in its sandbox.
func inside(w io.Writer, what string, args ...string) error {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), playVariable+"="+what)
	cmd.Stdout, cmd.Stderr = w, w // the same, and so there is one writer
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.Run()
}

// summary are the lines that say what was judged.
func summary(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		if strings.Contains(line, "judged") || strings.Contains(line, "in order") || strings.Contains(line, "planted") || strings.Contains(line, "at rest") || strings.Contains(line, "in all") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Every verb has something that it does, and nothing else is done.
func TestDeeds(t *testing.T) {
	for _, verb := range script.Verbs() {
		if _, ok := deeds[verb]; !ok && verb != script.Calm {
			t.Errorf("nothing is done for %s", verb)
		}
	}
	if len(deeds) != len(script.Verbs())-1 {
		t.Errorf("%d deeds for %d verbs", len(deeds), len(script.Verbs())-1)
	}
}

// A fresh Envoy may hold less, as long as what it lacks leads nowhere.
func TestDifferences(t *testing.T) {
	fresh := reading{"envoy": {`cluster/a {"x":1}`}, "rules": {"r1"}}
	at, near := []netip.AddrPort{netip.MustParseAddrPort("10.96.0.1:80")}, []netip.AddrPort{netip.MustParseAddrPort("10.96.0.3:80")}
	udp := func(ip, end string) reading {
		return reading{"envoy": {`cluster/a {"x":1}`, "active_state/udp-" + ip + `:80 {"socket_address":1}`, "cluster/" + ip + ":80/udp {}", "endpoint_config/" + ip + ":80/udp {" + end + "}"}, "rules": {"r1"}}
	}
	for what, tc := range map[string]struct {
		old  reading
		want int
	}{
		"the same":                    {fresh, 0},
		"left over, leads nowhere":    {reading{"envoy": {`cluster/a {"x":1}`, `cluster/10.96.0.1:80 {}`}, "rules": {"r1"}}, 0},
		"left over, of no Service":    {reading{"envoy": {`cluster/a {"x":1}`, `cluster/10.96.0.2:80 {}`}, "rules": {"r1"}}, 1},
		"left over, was near":         {reading{"envoy": {`cluster/a {"x":1}`, `cluster/10.96.0.3:80 {}`}, "rules": {"r1"}}, 0},
		"was near, leads somewhere":   {reading{"envoy": {`cluster/a {"x":1}`, `cluster/10.96.0.3:80 {"socket_address":1}`}, "rules": {"r1"}}, 1},
		"left over, leads somewhere":  {reading{"envoy": {`cluster/a {"x":1}`, `cluster/10.96.0.1:80 {"socket_address":1}`}, "rules": {"r1"}}, 1},
		"a UDP listener that stays":   {udp("10.96.0.1", ""), 0},
		"one of no Service":           {udp("10.96.0.2", ""), 3},
		"one that leads somewhere":    {udp("10.96.0.1", `"socket_address":1`), 3},
		"another content":             {reading{"envoy": {`cluster/a {"x":2}`}, "rules": {"r1"}}, 2},
		"a rule more":                 {reading{"envoy": {`cluster/a {"x":1}`}, "rules": {"r1", "r2"}}, 1},
		"a rule less, an Envoy empty": {reading{}, 2},
	} {
		if got := differences(tc.old, fresh, leftovers{dialled: at, near: near, bound: at}); len(got) != tc.want {
			t.Errorf("%s: %q", what, got)
		}
	}
}
