package main

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestExamples(t *testing.T) { testkit.Examples(t, command) }

// parse reads flags, and returns what was logged of them.
func parse(args ...string) (c *config, said string, err error) {
	c = defaults()
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.bind(f)
	if err := f.Parse(args); err != nil {
		return nil, "", err
	}
	var log bytes.Buffer
	err = c.complete(f, slog.New(slog.NewTextHandler(&log, nil)))
	return c, log.String(), err
}

func TestDefaults(t *testing.T) {
	c, said, err := parse()
	if err != nil || said != "" || !slices.Equal(c.hosts, []string{"gridmesh-admission.gridmesh.svc"}) {
		t.Errorf("%v, %q, %q", err, said, c.hosts)
	}
	if c, _, err = parse("--namespace", "edge-system"); err != nil || !slices.Equal(c.hosts, []string{"gridmesh-admission.edge-system.svc"}) {
		t.Errorf("%v, %q", err, c.hosts)
	}
}

// Mistakes are told, all at once and by the flag, before anybody is connected to.
func TestMistakes(t *testing.T) {
	for args, flag := range map[string]string{
		"--webhook-bind-address 8443": "--webhook-bind-address", "--webhook-bind-address=": "--webhook-bind-address",
		"--healthz-bind-address x": "--healthz-bind-address", "--metrics-bind-address ::1:80:": "--metrics-bind-address", "--secure-metrics-bind-address x": "--secure-metrics-bind-address",
		"--tls-cert-file a": "--tls-cert-file", "--tls-key-file a": "--tls-key-file", "--namespace=": "--namespace",
		"--certificate-lifetime 1s": "--certificate-lifetime", "--certificate-lifetime 100000h": "--certificate-lifetime",
		"--certificate-hosts https://a": "--certificate-hosts", "--certificate-hosts a:443": "--certificate-hosts", "--certificate-hosts a,,b": "--certificate-hosts", "--certificate-hosts A": "--certificate-hosts",
	} {
		if _, _, err := parse(strings.Fields(args)...); !errors.Is(err, run.ErrUsage) || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", args, err)
		}
	}
	_, _, err := parse("--healthz-bind-address", "x", "--metrics-bind-address", "y")
	if err == nil || !strings.Contains(err.Error(), "healthz") || !strings.Contains(err.Error(), "metrics") {
		t.Errorf("of two mistakes one is told: %v", err)
	}
}

// The flags of SuperEdge's edge-health-admission mean what they meant, or are told.
func TestSuperEdgesFlags(t *testing.T) {
	c, said, err := parse("--alsologtostderr", "--v=4", "--adminssion-control-listen-addr=:9443", "--admission-control-server-cert=/etc/edge/server.crt", "--admission-control-server-key=/etc/edge/server.key",
		"--kubeconfigpath=/etc/edge/kubeconfig", "--masterurl=https://10.0.0.1:6443", "--always-reachable")
	if err != nil || c.webhook != ":9443" || c.tls.Cert != "/etc/edge/server.crt" || c.tls.Key != "/etc/edge/server.key" || c.kubeconfig != "/etc/edge/kubeconfig" {
		t.Errorf("%v: %+v", err, c)
	}
	for _, flag := range []string{"--masterurl", "--always-reachable", "--v", "--alsologtostderr"} {
		if !strings.Contains(said, "flag="+flag+" ") {
			t.Errorf("%s is not told: %s", flag, said)
		}
	}
	if strings.Count(said, "\n") != 4 {
		t.Errorf("told is\n%s", said)
	}
}
