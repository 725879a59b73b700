package main

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

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
