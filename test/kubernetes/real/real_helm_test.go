package real

import (
	"regexp"
	"strings"
	"testing"
)

// indented are the commands of a page that are told by indenting them: the next such
// block behind a text.
func indented(t *testing.T, page, text string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, text)
	block := regexp.MustCompile(`(?m)(^    .*\n)+`).FindString(rest)
	if !found || block == "" {
		t.Fatalf("the page has no commands behind %q", text)
	}
	margin := regexp.MustCompile(`^ +`).FindString(block)
	return strings.ReplaceAll("\n"+block, "\n"+margin, "\n")[1:]
}

// fenced are the next commands of a page between fences.
func fenced(t *testing.T, page, text string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, text)
	_, rest, opened := strings.Cut(rest, "```sh\n")
	block, _, closed := strings.Cut(rest, "```\n")
	if !found || !opened || !closed {
		t.Fatalf("the page has no commands behind %q", text)
	}
	return block
}

// byHelm installs gridmesh with Helm as the page says, once more as an update,
// and takes it away; the controller is ready in between.
func (w *walk) byHelm() {
	w.t.Helper()
	install := indented(w.t, w.page, "**With Helm**")
	w.run(install)
	if _, err := c.WaitPods(patient(w.t), "gridmesh", "app.kubernetes.io/name=gridmesh-controller", 2); err != nil {
		w.t.Error(err)
	}
	w.run(install)
	for _, kind := range []string{"daemonset/gridmesh-agent", "daemonset/gridmesh-envoy", "daemonset/gridmesh-dns"} {
		kubectl(w.t, "-n", "gridmesh", "get", kind)
	}
	w.run(indented(w.t, w.page, "Helm has a command instead"))
	kubectl(w.t, "delete", "crd", "deploymentgrids.superedge.io", "statefulsetgrids.superedge.io", "servicegrids.superedge.io")
}
