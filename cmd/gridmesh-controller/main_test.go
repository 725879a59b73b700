package main

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

func TestExamples(t *testing.T) { testkit.Examples(t, command) }

// What is no address is told before anybody is connected to.
func TestAddressesAreChecked(t *testing.T) {
	c := defaults()
	check := func() error {
		return c.complete(pflag.NewFlagSet("", pflag.ContinueOnError), slog.New(slog.DiscardHandler))
	}
	if err := check(); err != nil {
		t.Error("the defaults:", err)
	}
	c.healthz, c.metrics, c.secure = "10357", "::1:10358:", "secure"
	err := check()
	for _, flag := range []string{"--healthz-bind-address", "--metrics-bind-address", "--secure-metrics-bind-address"} {
		if !errors.Is(err, run.ErrUsage) || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// A Lease without a name is no Lease, which the API server would say later.
func TestTheLeaseHasAName(t *testing.T) {
	for _, change := range []func(*config){
		func(c *config) { c.election.Namespace = "" },
		func(c *config) { c.election.Name = "" },
	} {
		c := defaults()
		change(c)
		check := func() error {
			return c.complete(pflag.NewFlagSet("", pflag.ContinueOnError), slog.New(slog.DiscardHandler))
		}
		if err := check(); !errors.Is(err, run.ErrUsage) || !strings.Contains(err.Error(), "--leader-elect-resource-name") {
			t.Errorf("got %v", err)
		}
		c.leaderElect = false
		if err := check(); err != nil {
			t.Errorf("without an election: %v", err)
		}
		c.health.UnitKey = "unit" // whose tables are in the namespace, election or not
		if err := check(); (c.election.Namespace == "") != errors.Is(err, run.ErrUsage) {
			t.Errorf("with node health: %v", err)
		}
	}
}
