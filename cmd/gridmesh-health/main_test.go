package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/gridmesh/gridmesh/health/shield"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

func TestExamples(t *testing.T) { testkit.Examples(t, command) }

func parsed(args ...string) (*config, error) {
	c := defaults()
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.bindFlags(f)
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	return c, c.complete(f, slog.New(slog.DiscardHandler))
}

// SuperEdge's own arguments are taken as they are.
func TestSuperEdgesFlags(t *testing.T) {
	c, err := parsed("--hostname=a-1", "--kubeletauthplugin=timeout=5,retrytime=3,weight=1,port=10250", "--healthcheckperiod=10", "--communicateperiod=60", "--votetimeout=60", "--v=2")
	if err != nil || c.node != "a-1" || !c.check.KubeletAuth.On || c.bind != ":51005" {
		t.Errorf("%+v, %v", c, err)
	}
}

// All flags of SuperEdge's edge-health are taken: of both generations, and of the one of its
// articles; as they are in its manifests, without the name of the node.
func TestAllOfSuperEdgesFlags(t *testing.T) {
	releases := "--kubeletplugin=timeout=1,retrytime=2,weight=0.5,port=10255 --kubeletauthplugin=timeout=5,retrytime=3,weight=0.3,port=10250 --pingplugin=weight=0.2,port=22 " +
		"--healthcheckperiod=20 --healthcheckscoreline=80 --communicateperiod=60 --communicatetimetout=4 --communicateretrytime=1 --communicateserverport=51006 --voteperiod=10 --votetimeout=90 " +
		"--masterurl=https://192.0.2.1 --hostname=a-1"
	articles := "--kubelet-plugin=timeout=1,retrytime=2,weight=0.5,port=10255 --kubelet-auth-plugin=timeout=5,retrytime=3,weight=0.3,port=10250 --ping-plugin=weight=0.2,port=22 " +
		"--health-check-period=20 --health-check-scoreline=80 --commun-period=10 --commun-timetout=4 --commun-retries=1 --commun-server-port=51006 --vote-period=10 --vote-timeout=90 " +
		"--master=https://192.0.2.1 --hostname=a-1 --sync-period=30 --kube-api-qps=1000 --kube-api-burst=1000 --worker=2"
	klog := " --v=2 --logtostderr=true --log_dir=/tmp --log_file= --log_file_max_size=1 --skip_headers --one_output --add_dir_header --skip_log_headers --stderrthreshold=2 --vmodule= --log_backtrace_at=:0 --alsologtostderr=false --legacy=v0.7"
	for _, args := range []string{releases + klog, articles + klog} {
		c, err := parsed(strings.Fields(args)...)
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		got := fmt.Sprint(c.node, " ", c.bind, " ", c.check.Kubelet.String(), " ", c.check.KubeletAuth.String(), " ", c.check.Ping.String(), " ", c.check.ScoreLine, " ",
			c.vote.Every, c.vote.Fresh, c.peer.ReportTimeout, c.peer.LegacyFresh)
		if want := "a-1 :51006 timeout=1,retrytime=2,weight=0.5,port=10255 timeout=5,retrytime=3,weight=0.3,port=10250 timeout=1,retrytime=3,weight=0.2,port=22 80 10s 1m40s 4s 1m40s"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Whatever period is asked for, a dead node's check ends in time to answer who asks, who still hears
// the answer, and has room for the next question by then; a death is known, and what a verdict rests on renewed, before the cloud goes by something
// else: 50 s, and 150 s (health/shield).
func TestPeriodsFit(t *testing.T) {
	for period, want := range map[string]time.Duration{"1": 5 * time.Second, "5": 5 * time.Second, "7500ms": 7500 * time.Millisecond, "10": 10 * time.Second, "20": 10 * time.Second, "30": 10 * time.Second, "3600": 10 * time.Second} {
		c, err := parsed("--node-name=a", "--healthcheckperiod="+period)
		if err != nil || c.vote.Every != want {
			t.Errorf("%s: %s, %v", period, c.vote.Every, err)
			continue
		}
		v := c.vote
		if way := c.peer.AskTimeout - c.check.Within; way < 250*time.Millisecond || c.check.Within < 2*time.Second || c.peer.AskTimeout >= v.AskFor {
			t.Errorf("%s: a check takes %s, and answers are waited for %s, asked for %s", period, c.check.Within, v.AskFor, c.peer.AskTimeout)
		}
		if death := time.Duration(v.Suspicion+1)*v.Every + c.check.Within + v.AskFor; death > 40*time.Second {
			t.Errorf("%s: a death is known after %s", period, death)
		}
		if fresh := shield.Default().Fresh; v.Renew+v.Every+v.AskFor > fresh || v.Fresh > fresh {
			t.Errorf("%s: renewed after %s, and it counts for %s", period, v.Renew, fresh)
		}
	}
}

// SuperEdge's manifest names the node by a variable.
func TestTheNodesNameIsAVariable(t *testing.T) {
	for node, want := range map[string]string{"": "a-1", "b-1": "b-1"} {
		c := defaults()
		c.getenv = func(name string) string { return map[string]string{"NODE_NAME": " a-1\n"}[name] }
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		c.bindFlags(f)
		if err := f.Parse([]string{"--node-name=" + node, "--kubeletauthplugin=timeout=5,retrytime=3,weight=1,port=10250", "--v=2"}); err != nil {
			t.Fatal(err)
		}
		if err := c.complete(f, slog.New(slog.DiscardHandler)); err != nil || c.node != want {
			t.Errorf("%q: %q, %v", node, c.node, err)
		}
	}
}

// Beside SuperEdge's nodes a node waits for them, and sees and tells as much as they; else it
// goes by its own rounds.
func TestBesideSuperEdge(t *testing.T) {
	for args, want := range map[string]string{
		"":                               "10 3 25s 3s",
		"--votetimeout=600":              "10 3 25s 3s",
		"--legacy=v0.7":                  "100 100 1m10s 3s",
		"--legacy=v0.8 --votetimeout=90": "100 100 1m40s 3s",
		"--legacy=v0.8 --votetimeout=0":  "100 100 25s 3s",
		"--communicatetimetout=60":       "10 3 25s 5s",
		"--communicatetimetout=0":        "10 3 25s 5s",
	} {
		c, err := parsed(append(strings.Fields(args), "--node-name=a")...)
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		if got := fmt.Sprint(c.vote.Observers, c.vote.Reporters, " ", c.vote.Fresh, " ", c.peer.ReportTimeout); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}

// Who has files with keys needs none of SuperEdge's ConfigMap; where it is kept is beside the unit.
func TestWhoseKeyCounts(t *testing.T) {
	for args, want := range map[string]bool{
		"--superedge-namespace=edge-system": true, "--superedge-namespace=edge-system --key-file=k": false, "--key-file=k": false, "": false,
	} {
		c, err := parsed(append(strings.Fields(args), "--node-name=a")...)
		if err != nil || c.superEdgesKey() != want {
			t.Errorf("%s: %v, %v", args, c.superEdgesKey(), err)
		}
	}
	if got := beside("/var/lib/gridmesh-health/unit"); got != "/var/lib/gridmesh-health/unit.superedge" || beside("") != "" {
		t.Error(got)
	}
}

func TestMistakesAreTold(t *testing.T) {
	for _, tt := range []struct{ flag, args string }{
		{"--node-name", "--unit-key=unit"},
		{"--healthcheckperiod", "--node-name=a --healthcheckperiod=0"},
		{"--unit-key", "--node-name=a --unit-key="},
		{"--key-file", "--node-name=a --key-file=1 --key-file=2 --key-file=3"},
		{"--bind-address", "--node-name=a --bind-address=1.2.3"},
	} {
		if _, err := parsed(strings.Fields(tt.args)...); !errors.Is(err, run.ErrUsage) || !strings.Contains(err.Error(), tt.flag) {
			t.Errorf("%s: %v, want %s in it", tt.args, err, tt.flag)
		}
	}
}

// Keys are followed; one that is empty or missing leaves those that are in force.
func TestKeysAreRead(t *testing.T) {
	dir := t.TempDir()
	k := keyFiles{paths: []string{filepath.Join(dir, "key"), filepath.Join(dir, "next")}}
	if _, err := k.read(); err == nil {
		t.Error("the first is missing, and nothing is said")
	}
	for name, text := range map[string]string{"key": " abc\n", "next": "def"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if keys, err := k.read(); err != nil || len(keys) != 2 || string(keys[0]) != "abc" {
		t.Errorf("%q, %v", keys, err)
	}
	if err := os.Remove(filepath.Join(dir, "next")); err != nil {
		t.Fatal(err)
	}
	if keys, err := k.read(); err != nil || len(keys) != 1 {
		t.Errorf("without the second: %q, %v", keys, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "key"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := k.read(); err == nil {
		t.Error("the first is empty, and nothing is said")
	}
}
