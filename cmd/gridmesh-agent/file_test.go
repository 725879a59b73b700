package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/internal/run"
)

const fileHead = "apiVersion: config.gridmesh.io/v1alpha1\nkind: AgentConfig\n"

// withFile is what a file and flags beside it make.
func withFile(t *testing.T, text string, flags ...string) (*config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := defaults()
	root := command(c)
	if err := root.ParseFlags(append(flags, "--config", path)); err != nil {
		t.Fatal(err)
	}
	if err := root.PersistentPreRunE(root, nil); err != nil {
		return nil, err
	}
	return c, c.complete()
}

func TestFlagsFromAFile(t *testing.T) {
	c, err := withFile(t, fileHead+`
node-name: a-1
service-cidr: [10.96.0.0/16, "fd00:96::/112"]
pod-cidr: 10.244.1.0/24,fd00:1::/64
datapath: auto
listen-port-base: 16000
close-on-move: true
connect-timeout: 200ms
preload-max: 100
conntrack-tcp-timeout-close-wait: 30m
metrics-bind-address: 127.0.0.1:1
`, "--preload-max", "50", "--service-cidr=10.97.0.0/16")
	if err != nil {
		t.Fatal(err)
	}
	n := &c.node
	if n.Node != "a-1" || len(n.PodCIDRs) != 2 || n.ProxyMode != "auto" || c.capture.Ports.Base != 16000 || !n.CloseOnMove ||
		n.Render.ConnectTimeout != 200*time.Millisecond || c.tracking.TCPCloseWait != 30*time.Minute || n.MetricsAddress != "127.0.0.1:1" {
		t.Errorf("got %+v, %+v", n, c.tracking)
	}
	if n.PreloadMax != 50 || len(n.ServiceCIDRs) != 1 || n.ServiceCIDRs[0].String() != "10.97.0.0/16" {
		t.Errorf("what is given beside the file does not win: %d, %v", n.PreloadMax, n.ServiceCIDRs)
	}
	if c, err = withFile(t, fileHead+"node-name: a-1\nservice-cidr: [10.96.0.0/16, 'fd00:96::/112']\npod-cidr: []\n"); err != nil || len(c.node.ServiceCIDRs) != 2 || len(c.node.PodCIDRs) != 0 {
		t.Errorf("lists: %+v, %v", c, err)
	}
}

// Every command has the file: cleanup removes what an agent with these flags made.
func TestCommandsReadTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(path, []byte(fileHead+"route-table: 254\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{}, {"bootstrap"}, {"status"}, {"cleanup"}} {
		root := command(defaults())
		root.SetArgs(append(args, "--config", path, "--node-name", "a-1"))
		root.SilenceErrors, root.SilenceUsage = true, true
		if err := root.ExecuteContext(t.Context()); !errors.Is(err, run.ErrUsage) || !strings.Contains(err.Error(), "which the kernel uses") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestWrongFilesAreNamed(t *testing.T) {
	for text, say := range map[string]string{
		"":                               "it is to begin with apiVersion: config.gridmesh.io/v1alpha1 and kind: AgentConfig",
		"kind: KubeProxyConfiguration\n": `kind "KubeProxyConfiguration"`,
		strings.Replace(fileHead, "v1alpha1", "v9", 1): "config.gridmesh.io/v9",
		"- a\n":                                       "cannot unmarshal",
		fileHead + "node-nam: a\n":                    `key "node-nam" is not known; did you mean node-name?`,
		fileHead + "nodeName: a\n":                    `key "nodeName" is not known`,
		fileHead + "config: x\n":                      `key "config" is not known`,
		fileHead + "output: x\n":                      `key "output" is not known`,
		fileHead + "preload-max: many\n":              "key preload-max: ",
		fileHead + "preload-max: 1\npreload-max: 2\n": "already set",
		fileHead + "preload-max: [1]\n":               "key preload-max: has one value, and no list",
		fileHead + "preload-max:\n":                   "key preload-max: is no text, number, true or false",
		fileHead + "service-cidr: {a: b}\n":           "key service-cidr: is no text",
		fileHead + "service-cidr: [[a]]\n":            "key service-cidr: is no text",
		fileHead + "a: 1\nb: 2\n":                     `key "b" is not known`,
		fileHead + "pod-cidr: [nonsense]\n":           `--pod-cidr: "nonsense" is no CIDR`,
	} {
		if _, err := withFile(t, text, "--node-name", "a-1"); !errors.Is(err, run.ErrUsage) || !strings.Contains(err.Error(), say) {
			t.Errorf("%q: %v, want ErrUsage with %q", text, err, say)
		}
	}
}

// What is no file of a sensible size is refused, and waited for never; one behind a link,
// as in a volume of a ConfigMap, is read.
func TestOddFilesOfFlags(t *testing.T) {
	dir := t.TempDir()
	pipe, huge, file, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "huge"), filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(huge, make([]byte, maxFile+1), 0o600),
		os.WriteFile(file, []byte(fileHead), 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	for path, say := range map[string]string{pipe: "is no file of up to", dir: "is no file of up to", huge: "is no file of up to", filepath.Join(dir, "none"): "no such file"} {
		c := defaults()
		flags := command(c).PersistentFlags()
		c.file = path
		if err := c.readFile(flags); !errors.Is(err, run.ErrUsage) || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v", path, err)
		}
	}
	c := defaults()
	flags := command(c).PersistentFlags()
	c.file = link
	if err := c.readFile(flags); err != nil {
		t.Error(err)
	}
}

// FuzzFile: whatever is in a file is taken or named, and nothing else.
func FuzzFile(f *testing.F) {
	f.Add(fileHead + "service-cidr: [10.96.0.0/16, 7, true]\nclose-on-move: yes\n")
	f.Add(fileHead + "preload-max: 1e9\nmark: {a: [b]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		flags := command(defaults()).PersistentFlags()
		if err := takeFile([]byte(text), flags); err != nil && err.Error() == "" {
			t.Error("an error without a word")
		}
	})
}
