package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// onSite is a node: an agent with its own files where they are by default, and
// nobody else to ask. What it prints ends with the agent.
const onSite = `
mount -t tmpfs site /run
mount -t tmpfs site /var/lib
ip link set lo up
gridmesh-agent --manifests "$STATE" --node-name a-1 --healthz-bind-address= --metrics-bind-address= 2>/run/log &
agent=$!
trap 'kill -KILL $agent 2>/dev/null || true' EXIT
for i in $(seq 600); do
	gridmesh-agent status 2>/dev/null | grep -q '^source *live' && [ -s /var/lib/gridmesh/state ] && break
	sleep 0.1
done
`

// The commands for a site without an uplink are run as they stand, where the
// agent serves, and those that do without one where it has ended.
func TestCommandsOfACutSite(t *testing.T) {
	text := section(t, "docs/agent.md", "At a site without an uplink")
	commands := fence.FindStringSubmatch(text)
	if commands == nil || !strings.HasPrefix(commands[2], "gridmesh-agent status ") {
		t.Fatal("docs/agent.md has no commands for a site without an uplink")
	}
	var alone []string
	for line := range strings.Lines(commands[2]) {
		if strings.Contains(line, "where no agent runs") {
			alone = append(alone, line)
		}
	}
	if len(alone) != 2 {
		t.Fatalf("%d commands do without an agent: %q", len(alone), alone)
	}
	_, err := exec.LookPath("nft")
	rules := err == nil
	if !rules {
		t.Log("nft(8) is not installed: the command that shows the rules is left out")
		commands[2] = strings.Replace(commands[2], "\nnft ", "\n# nft ", 1)
		alone = alone[:1]
	}
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	if err := os.Mkdir(state, 0o755); err != nil {
		t.Fatal(err)
	}
	// Without what is wrong in it on purpose.
	text, _, _ = strings.Cut(read(t, "examples/two-units/state.yaml"), "name: typo")
	text = text[:strings.LastIndex(text, "\n---\n")]
	if err := os.WriteFile(filepath.Join(state, "all.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	script := "set -e" + onSite + commands[2] +
		"kill $agent; wait $agent || true\n" + "echo ALONE\n" + strings.Join(alone, "")
	cmd := exec.Command("unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script)
	cmd.Env = append(os.Environ(), "STATE="+state, "PATH="+filepath.Join(edge.Root(), "bin")+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	running, ended, _ := strings.Cut(string(out), "ALONE\n")
	for what, part := range map[string]string{"status": "source      live", "view": "default/web", "the last good state": "this is the last good state"} {
		if !strings.Contains(running, part) {
			t.Errorf("beside the agent %s lacks %q:\n%s", what, part, running)
		}
	}
	if !strings.Contains(ended, "default/web") {
		t.Errorf("without the agent the view is\n%s", ended)
	}
	if rules && (!strings.Contains(running, "table inet gridmesh") || !strings.Contains(ended, "table inet gridmesh")) {
		t.Errorf("nft shows no rules:\n%s", out)
	}
}
