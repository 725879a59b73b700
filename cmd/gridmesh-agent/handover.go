package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/capture/kubeproxy"
)

// handOverEvery is how often kube-proxy is looked at that is waited for.
const handOverEvery = time.Second

// awaitKubeProxy waits until kube-proxy serves every family that gridmesh serves on this
// node, behind its rules: what takes these away is then no outage. It says what it waits for.
func awaitKubeProxy(ctx context.Context, w io.Writer, host capture.Host) error {
	said := ""
	for {
		ours, err := capture.Serves()
		if err != nil {
			return fmt.Errorf("look at what gridmesh serves here: %w", err)
		}
		theirs, err := kubeproxy.Look()
		if err != nil {
			return fmt.Errorf("look at kube-proxy's rules: %w", err)
		}
		lacks := lacking(ours, theirs)
		if lacks == "" {
			return capture.PutBack(host)
		}
		if lacks != said {
			said = lacks
			fmt.Fprintln(w, "waiting:", lacks)
		}
		select {
		case <-time.After(handOverEvery):
		case <-ctx.Done():
			return fmt.Errorf("nothing is removed: %s", lacks)
		}
	}
}

// lacking says what kube-proxy does not serve yet; "" for nothing.
func lacking(ours []string, theirs kubeproxy.Rules) string {
	var list []string
	for _, family := range ours {
		if !slices.Contains(theirs.Serves, family) {
			list = append(list, map[string]string{"ip": "IPv4", "ip6": "IPv6"}[family])
		}
	}
	if len(list) == 0 {
		return ""
	}
	return "kube-proxy does not serve " + strings.Join(list, " and ") + " on this node yet, and gridmesh's rules do"
}
