package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A Service of many ports, whose endpoints have each but a few of them, is a line for each endpoint at each port: in
// the list of all Services so many of these are told that people can read it, and the memory is bounded; of one that
// is asked for more of them.
func TestAWideServiceIsListedInPart(t *testing.T) {
	const ports, endpoints = 300, 150
	var text strings.Builder
	text.WriteString("{apiVersion: v1, kind: Node, metadata: {name: a-1, labels: {unit: a}}}\n---\n")
	text.WriteString("{apiVersion: v1, kind: Service, metadata: {name: wide, annotations: {topologyKeys: '[\"unit\"]'}}, spec: {clusterIP: 10.96.0.9, ports: [")
	for i := range ports {
		fmt.Fprintf(&text, "{name: p%d, port: %d}, ", i, 1000+i)
	}
	text.WriteString("]}}\n---\n{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: wide-x, labels: {kubernetes.io/service-name: wide}}, addressType: IPv4, ports: [")
	for i := range 20 {
		fmt.Fprintf(&text, "{name: p%d, port: 80}, ", i)
	}
	text.WriteString("], endpoints: [")
	for i := range endpoints {
		fmt.Fprintf(&text, "{addresses: [10.244.1.%d], nodeName: a-1}, ", i+1)
	}
	text.WriteString("]}\n")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args         []string
		listed, more int
	}{
		{nil, mostLeftOut, ports - 20 - 1},
		{[]string{"wide"}, mostLeftOutOfOne, ports - 20 - mostLeftOutOfOne/endpoints},
	} {
		cmd := command()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs(append([]string{"view", "--node", "a-1", "-f", dir}, tc.args...))
		if err := cmd.Execute(); err != nil {
			t.Fatalf("%v: %v\n%.2000s", tc.args, err, out.String())
		}
		if listed, more := strings.Count(out.String(), "its slice has p0/tcp, "), strings.Count(out.String(), " more  "); listed != tc.listed || more != tc.more {
			t.Errorf("%v: %d are listed as left out, want %d, and %d frontends have more, want %d\n%.2000s", tc.args, listed, tc.listed, more, tc.more, out.String())
		}
		if !strings.Contains(out.String(), "p7/tcp, 12 more, and not p20/tcp") {
			t.Errorf("%v: what ports a slice has is told as\n%.2000s", tc.args, out.String())
		}
	}
}
