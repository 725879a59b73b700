package kube

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// load reads what the rules lead to, of one context ("" for the current one). raw is
// what is written there, also where it cannot be used; by is how messages name it.
func load(rules *clientcmd.ClientConfigLoadingRules, context, by string) (cfg *rest.Config, raw clientcmdapi.Config, err error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
	if raw, err = loader.RawConfig(); err != nil {
		return nil, raw, fmt.Errorf("read %s: %w", by, told(err))
	}
	if cfg, err = loader.ClientConfig(); err == nil {
		field, text := nobody(&raw, context)
		if text == "" {
			return cfg, raw, nil
		}
		err = fmt.Errorf("%s: %s", field, text) // which client-go takes for nobody in particular
	}
	if len(raw.Contexts)+len(raw.Clusters) == 0 && context == "" {
		return nil, raw, fmt.Errorf("%w: %s has none", ErrNoConfig, by)
	}
	if field, text := mistake(&raw, context); text != "" {
		err = fmt.Errorf("%s: %s", field, text) // which client-go says in words of its own
	}
	return nil, raw, fmt.Errorf("use %s: %w", by, told(err))
}

// cures are for what client-go says of a kubeconfig, by a part of its words.
var cures = []struct{ part, cure string }{
	{"is a directory", "give the file that kubectl uses"},
	{"no such file", "correct the path, or put the file there"},
	{"yaml: ", "correct it, or give the file that kubectl uses"},
	{"illegal base64", "correct certificate-authority-data, client-certificate-data and client-key-data, or name files without -data"},
	{"PEM", "correct certificate-authority, client-certificate and client-key, which are PEM, or their -data"},
	{"cannot unmarshal", "correct that field; what YAML takes for another type, as y, no or 123, is a name in quotes"},
	{"host must be a URL", "write clusters[].cluster.server as https://192.0.2.1:6443"},
}

// told is an error of client-go's with the cure, where it is known.
func told(err error) error {
	text := err.Error()
	if strings.Contains(text, "couldn't get version/kind") { // and then types of Go
		return errors.New("it is no kubeconfig; give the file that kubectl uses, of apiVersion v1 and kind Config")
	}
	for _, c := range cures {
		if strings.Contains(text, c.part) {
			return fmt.Errorf("%w; %s", err, c.cure)
		}
	}
	return err
}

// mistake is the field of a kubeconfig that keeps it from being used, what is wrong
// with it, and the cure; nothing where none is found.
func mistake(raw *clientcmdapi.Config, asked string) (field, text string) {
	name := cmp.Or(asked, raw.CurrentContext)
	context := raw.Contexts[name]
	switch {
	case len(raw.Contexts) == 0:
		return "contexts", "there is none, and so no cluster is named; give the file that kubectl uses"
	case name == "":
		return "current-context", "is empty, and does not say which cluster is meant; " + choice(raw.Contexts)
	case context == nil && asked != "":
		return "contexts", fmt.Sprintf("context %q does not exist; %s", asked, choice(raw.Contexts))
	case context == nil:
		return "current-context", fmt.Sprintf("names %q, which does not exist; %s", name, choice(raw.Contexts))
	}
	cluster := raw.Clusters[context.Cluster]
	switch {
	case cluster == nil:
		return fmt.Sprintf("contexts[%s].context.cluster", name), fmt.Sprintf("names %q, which does not exist; %s", context.Cluster, choice(raw.Clusters))
	case cluster.Server == "":
		return fmt.Sprintf("clusters[%s].cluster.server", context.Cluster), "is empty; write the API server's address, as https://192.0.2.1:6443"
	}
	return "", ""
}

// nobody is the same of a user that does not exist.
func nobody(raw *clientcmdapi.Config, asked string) (field, text string) {
	name := cmp.Or(asked, raw.CurrentContext)
	context := raw.Contexts[name]
	if context == nil || context.AuthInfo == "" || raw.AuthInfos[context.AuthInfo] != nil {
		return "", ""
	}
	return fmt.Sprintf("contexts[%s].context.user", name), fmt.Sprintf("names %q, which does not exist, and so the API server would be asked as nobody; %s", context.AuthInfo, choice(raw.AuthInfos))
}

// choice are the names that may be written instead.
func choice[V any](named map[string]V) string {
	const most = 8
	names := slices.Sorted(maps.Keys(named))
	if len(names) == 0 {
		return "there is none to choose"
	}
	text := "it may be " + strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" or one of %d more", more)
	}
	return text
}

// firstOfRange reports whether an address is what the Service kubernetes has in most
// clusters: the first of their range, at the port of HTTPS.
func firstOfRange(host string) bool {
	u, err := url.Parse(host)
	if err != nil || u.Port() != "" && u.Port() != "443" {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if err != nil || !ip.IsPrivate() {
		return false
	}
	bytes := ip.AsSlice()
	return bytes[len(bytes)-2] == 0 && bytes[len(bytes)-1] == 1
}
