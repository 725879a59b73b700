package main

import (
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/health/vote"
)

// A daemon that is updated counts as one only when it hears the unit, and is heard by it: else all of
// a unit's would be updated before the first of them votes again.
func TestDaemonsAreUpdatedOneAfterAnother(t *testing.T) {
	text, err := os.ReadFile("../../deploy/health/health.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var set appsv1.DaemonSet
		if err := yaml.Unmarshal([]byte(doc), &set); err != nil || set.Kind != "DaemonSet" {
			continue
		}
		cfg := vote.Default("a-1")
		if got, least := time.Duration(set.Spec.MinReadySeconds)*time.Second, cfg.Fresh+2*cfg.Every+cfg.AskFor; got < least {
			t.Errorf("a daemon counts after %s, and votes after up to %s", got, least)
		}
		return
	}
	t.Error("deploy/health/health.yaml has no DaemonSet")
}
