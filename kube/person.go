package kube

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/homedir"
)

// ErrNoConfig means that nothing says which cluster is meant.
var ErrNoConfig = errors.New("no cluster is given")

// ConnectPerson connects as kubectl does, for people: by a kubeconfig that was
// asked for, else by those that $KUBECONFIG lists, else ~/.kube/config, else
// in-cluster credentials. context is one of the kubeconfig, "" for its current
// one. Without any of them it is ErrNoConfig. The API server need not answer.
func ConnectPerson(kubeconfig, context, agent string) (*Client, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	var by string
	switch list := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); {
	case kubeconfig != "":
		by = "kubeconfig " + kubeconfig
	case list != "":
		by = "$KUBECONFIG " + list
	default: // client-go looks for the home directory at the start alone
		by = "~/.kube/config"
		rules.Precedence = []string{filepath.Join(homedir.HomeDir(), clientcmd.RecommendedHomeDir, clientcmd.RecommendedFileName)}
	}
	cfg, raw, err := load(rules, context, by)
	switch {
	case errors.Is(err, ErrNoConfig):
		return nil, fmt.Errorf("%w, and no in-cluster credentials are there", err)
	case err != nil:
		return nil, err
	case len(raw.Clusters) == 0:
		by = inCluster
	}
	if context != "" {
		by += ", context " + context
	}
	return connect(cfg, by, agent, Rate{QPS: -1}) // none: a person asks little, and would be told of a limiter where time is up
}
