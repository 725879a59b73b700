package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lists are what an API server has, by the path of a request, with a mark of those
// who take Services or slices that carry a label.
var lists = map[string]string{
	"/api/v1/services": `{"kind": "ServiceList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [
		{"metadata": {"namespace": "default", "name": "kubernetes"}, "spec": {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "ports": [{"port": 443}]}},
		{"metadata": {"namespace": "default", "name": "web"}, "spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"],
			"externalIPs": ["192.0.2.80"], "ports": [{"port": 80}]}}]}`,
	"/apis/discovery.k8s.io/v1/endpointslices": `{"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1", "metadata": {"resourceVersion": "1"}, "items": [
		{"metadata": {"namespace": "default", "name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}}, "addressType": "IPv4",
			"ports": [{"port": 6443}], "endpoints": [{"addresses": ["192.0.2.1"]}]},
		{"metadata": {"namespace": "default", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}}, "addressType": "IPv4",
			"ports": [{"port": 8080}], "endpoints": [{"addresses": ["10.244.8.2"], "nodeName": "edge-7"}]}]}`,
	"/api/v1/nodes": `{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "1"}, "items": [
		{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "edge-7"}}]}`,
	"/api/v1/nodes/edge-7": `{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "edge-7"}, "spec": {"podCIDRs": ["10.244.7.0/24"]}}`,
	"/apis/networking.k8s.io/v1/servicecidrs": `{"kind": "ServiceCIDRList", "apiVersion": "networking.k8s.io/v1", "metadata": {"resourceVersion": "1"}, "items": [
		{"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/16"]}}]}`,
	"/apis/networking.k8s.io/v1/networkpolicies":        `{"kind": "NetworkPolicyList", "apiVersion": "networking.k8s.io/v1", "metadata": {"resourceVersion": "1"}, "items": []}`,
	"/api/v1/services labelled":                         `{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "1"}, "items": []}`,
	"/apis/discovery.k8s.io/v1/endpointslices labelled": `{"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1", "metadata": {"resourceVersion": "1"}, "items": []}`,
}

// apiServer has these lists, and nothing new to tell.
func apiServer(t *testing.T) (kubeconfig string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		path := r.URL.Path
		if s := q.Get("labelSelector"); s != "" && !strings.HasPrefix(s, "!") {
			path += " labelled"
		}
		switch list, known := lists[path]; {
		case r.URL.Path == "/readyz":
			fmt.Fprint(w, "ok")
		case !known:
			t.Errorf("it was asked for %s", r.URL)
			http.NotFound(w, r)
		case q.Get("sendInitialEvents") != "": // as one that has no watch-lists
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422}`)
		case q.Get("watch") != "":
			<-r.Context().Done()
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, list)
		}
	}))
	t.Cleanup(server.Close)
	return kubeconfigOf(t, server.URL)
}

// kubeconfigOf is one of a server that asks for no credentials.
func kubeconfigOf(t *testing.T, server string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: '%s'}}]}", server)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Of a cluster a trace asks what no snapshot has: which pods are the node's, and
// whose an address is that is not served.
func TestTraceByACluster(t *testing.T) {
	kubeconfig := apiServer(t)
	for to, want := range map[string]struct {
		code int
		text string
	}{
		"10.96.0.10:80": {0, "10.244.7.9 is a pod of this node"},
		"192.0.2.80:80": {1, "192.0.2.80 is an external address of service default/web"},
	} {
		code, out, log := gridmesh(t, "trace", "--datapath", "envoy", "--kubeconfig", kubeconfig, "--node", "edge-7", "--from", "10.244.7.9", "--to", to)
		if code != want.code || !strings.Contains(out+log, want.text) {
			t.Errorf("to %s: code %d: %s%s, want %q", to, code, out, log, want.text)
		}
	}
}
