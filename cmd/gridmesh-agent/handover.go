package main

import (
	"context"
	"errors"
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

// awaitKubeProxy waits until a kube-proxy runs and serves every family that gridmesh serves
// on this node, behind its rules: what takes these away is then no outage. It says what it
// waits for; a look that fails is tried again.
func awaitKubeProxy(ctx context.Context, w io.Writer, host capture.Host) error {
	said := ""
	for {
		lacks, err := lookForKubeProxy()
		if err != nil {
			lacks = "not all of this node could be looked at: " + err.Error()
		}
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

func lookForKubeProxy() (lacks string, err error) {
	ours, unread := capture.Serves()
	theirs, unknown := kubeproxy.Serving()
	signs, unseen := kubeproxy.Alive()
	return lacking(ours, theirs, signs.Text()), errors.Join(unread, unknown, unseen)
}

// lacking says what kube-proxy does not serve yet of what gridmesh does; "" for nothing.
// What one left that is gone serves nobody for long.
func lacking(ours, theirs []string, alive string) string {
	var list []string
	for _, family := range ours {
		if !slices.Contains(theirs, family) {
			list = append(list, map[string]string{"ip": "IPv4", "ip6": "IPv6"}[family])
		}
	}
	switch {
	case len(ours) > 0 && alive == "":
		return "there is no sign on this node of a kube-proxy that runs, and gridmesh's rules serve"
	case len(list) == 0:
		return ""
	}
	return "kube-proxy does not serve " + strings.Join(list, " and ") + " on this node yet, and gridmesh's rules do"
}
