package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

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

// What is wrong with a value shows when it is used, in any command: then, too, it is told
// where it stands, but for what was given beside the file.
func TestValuesOfAFileAreTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.yaml")
	text := fileHead + "service-cidr: [10.96.0.0/12]\n# a remark\npod-cidr:\n- 10.97.0.0/16\n- 10.244.1.1/24\n- nonsense\npreload-max: -1\ndatapath: ebpf\nhealthz-bind-address: nowhere\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	said := func(args ...string) string {
		root := command(defaults())
		root.SetArgs(append(args, "--config", path, "--node-name", "a-1"))
		root.SilenceErrors, root.SilenceUsage = true, true
		err := root.ExecuteContext(t.Context())
		if !errors.Is(err, run.ErrUsage) {
			t.Fatalf("%v: %v, want ErrUsage", args, err)
		}
		return err.Error() + "\n"
	}
	for _, of := range [][]string{{}, {"bootstrap"}, {"status"}, {"cleanup"}} {
		got := said(of...)
		for _, want := range []string{
			"--pod-cidr 10.244.1.1/24 has bits beyond its length; did you mean 10.244.1.0/24? (" + path + ", line 5)\n",
			`--pod-cidr: "nonsense" is no CIDR such as 10.244.7.0/24 (` + path + ", line 5)\n",
			"--preload-max -1: must not be negative (" + path + ", line 9)\n",
			"(" + path + ", line 10)\n",
			"(" + path + ", line 11)\n",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%v: no %q in\n%s", of, want, got)
			}
		}
	}
	got := said("--pod-cidr", "10.97.0.0/16", "--preload-max=-2", "--datapath=auto")
	if !strings.Contains(got, "--pod-cidr 10.97.0.0/16 and --service-cidr 10.96.0.0/12 overlap ("+path+", line 3)\n") || !strings.Contains(got, "--preload-max -2: must not be negative\n") {
		t.Errorf("beside the file: %s", got)
	}
}

// A value is the text that stands in the file, as it would be on a command line,
// whatever else it is for YAML.
func TestValuesAreTexts(t *testing.T) {
	for _, text := range []string{
		"0017", "0o17", "0x10", "1e3", "1_000", "1.50", "123456789012345678901234567890", "190:20:30", "2001-01-01", ".5",
		"yes", "No", "on", "TRUE", "true", ".inf", "NaN", "+1", "nullable", "a b", "=",
	} {
		for _, written := range []string{text, `"` + text + `"`, "'" + text + "'", "|-\n  " + text, text + " # a remark"} {
			flags := command(defaults()).PersistentFlags()
			if err := takeFile([]byte(fileHead+"state-dir: "+written+"\nservice-cidr: ['"+text+"', "+text+"]\n"), flags); err != nil {
				t.Errorf("%q: %v", written, err)
				continue
			}
			dir, _ := flags.GetString("state-dir")
			list, _ := flags.GetStringSlice("service-cidr")
			if dir != text || !slices.Equal(list, []string{text, text}) {
				t.Errorf("of %q it makes %q and %q", written, dir, list)
			}
		}
	}
	for _, tc := range []struct{ flag, text string }{
		{"preload-max", "0017"},
		{"preload-max", "0x10"},
		{"preload-max", "1e3"},
		{"preload-max", "1_000"},
		{"close-on-move", "yes"},
		{"close-on-move", "T"},
		{"listen-port-base", "15000.0"},
		{"listen-port-base", "70000"},
		{"connect-timeout", "1:30"},
		{"connect-timeout", "1m30s"},
	} {
		byLine, byFile := command(defaults()).PersistentFlags(), command(defaults()).PersistentFlags()
		want, got := byLine.Set(tc.flag, tc.text), takeFile([]byte(fileHead+tc.flag+": "+tc.text+"\n"), byFile)
		if (want == nil) != (got == nil) || byLine.Lookup(tc.flag).Value.String() != byFile.Lookup(tc.flag).Value.String() {
			t.Errorf("--%s=%s: %v and %s, in a file %v and %s", tc.flag, tc.text, want, byLine.Lookup(tc.flag).Value, got, byFile.Lookup(tc.flag).Value)
		}
	}
}

func TestWrongFilesAreNamed(t *testing.T) {
	bomb := fileHead + "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c <= 'z'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat("*"+string(c-1)+", ", 9), ", "))
	}
	for text, say := range map[string]string{
		"":                               "it is to begin with apiVersion: config.gridmesh.io/v1alpha1 and kind: AgentConfig",
		"# only a remark\n":              "it is to begin with apiVersion",
		"kind: KubeProxyConfiguration\n": `kind "KubeProxyConfiguration"`,
		strings.Replace(fileHead, "v1alpha1", "v9", 1): "config.gridmesh.io/v9",
		"- a\n":                                            "line 1: is no mapping",
		fileHead + "a: b: c\n":                             "line 3: ",
		fileHead + "node-nam: a\n":                         `line 3: key "node-nam": is not known; did you mean node-name?`,
		fileHead + "nodeName: a\n":                         `key "nodeName": is not known`,
		fileHead + "config: x\n":                           `key "config": is not known`,
		fileHead + "output: x\n":                           `key "output": is not known`,
		fileHead + "preload-max: many\n":                   `line 3: key "preload-max": ["many"] is no int; write it as --preload-max is given on a command line`,
		fileHead + "close-on-move: yes\n":                  `key "close-on-move": ["yes"] is no bool`,
		fileHead + "preload-max: 1\npreload-max: 2\n":      `line 4: key "preload-max": is in line 3 already; keep one of them`,
		fileHead + "kind: AgentConfig\n":                   `line 3: key "kind": is in line 2 already`,
		fileHead + "preload-max: [1]\n":                    `key "preload-max": has one value, and no list`,
		fileHead + "preload-max:\n":                        `line 3: key "preload-max": has no value; give one`,
		fileHead + "preload-max: ~\n":                      `has no value`,
		fileHead + "kubeconfig: null\n":                    `key "kubeconfig": has no value`,
		fileHead + "service-cidr: [10.96.0.0/16, ]\n---\n": "line 4: a second document begins here; keep one",
		fileHead + "---\n" + fileHead:                      "line 3: a second document begins here",
		fileHead + "---\na: b: c\n":                        "line 4: ",
		fileHead + "service-cidr: [null]\n":                "has no value",
		fileHead + "service-cidr: {a: b}\n":                `key "service-cidr": is no text`,
		fileHead + "service-cidr: [[a]]\n":                 `key "service-cidr": is no text`,
		fileHead + "node-name: &n a\nstate-dir: *n\n":      `line 4: key "state-dir": has an alias; write what it stands for`,
		fileHead + "service-cidr: [&c a, *c]\n":            "has an alias",
		fileHead + "x: &x {preload-max: 1}\n<<: *x\n":      "line 4: a key is no flag's name",
		fileHead + "[a]: b\n":                              "line 3: a key is no flag's name",
		fileHead + "preload-max: !!int \"1\"\n":            "has a tag, !!int; leave it out",
		fileHead + "a: 1\nb: 2\n":                          `key "b": is not known`,
		fileHead + "pod-cidr: [nonsense]\n":                `--pod-cidr: "nonsense" is no CIDR`,
		bomb:                                               "these are the first mistakes",
	} {
		_, err := withFile(t, text, "--node-name", "a-1")
		if !errors.Is(err, run.ErrUsage) || !strings.Contains(err.Error(), say) {
			t.Errorf("%q: %v, want ErrUsage with %q", text, err, say)
		}
		if err != nil && len(err.Error()) > 8<<10 {
			t.Errorf("%q: told in %d bytes", text, len(err.Error()))
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

// FuzzFile: whatever is in a file is taken or named, and nothing else; a value between
// quotes is what a flag would be given.
func FuzzFile(f *testing.F) {
	f.Add(fileHead + "service-cidr: [10.96.0.0/16, 7, true]\nclose-on-move: yes\n")
	f.Add(fileHead + "a: &a [b]\nc: [*a, *a]\n---\nd: ~\n")
	f.Add(fileHead + "preload-max: 1e9\nmark: {a: [b]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		flags := command(defaults()).PersistentFlags()
		if err := takeFile([]byte(text), flags); err != nil && err.Error() == "" {
			t.Error("an error without a word")
		}
		quoted, err := json.Marshal(text)
		if err != nil || !utf8.ValidString(text) || strings.ContainsRune(text, '\u0085') { // a line's end, for YAML
			return
		}
		flags = command(defaults()).PersistentFlags()
		if err := takeFile([]byte(fileHead+"state-dir: "+string(quoted)+"\n"), flags); err != nil {
			return // what YAML has no character for
		}
		if got, _ := flags.GetString("state-dir"); got != text {
			t.Errorf("of %s it makes %q", quoted, got)
		}
	})
}
