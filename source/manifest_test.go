package source

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// nested are Lists inside each other, and a Node inside the last.
func nested(levels int) string {
	return strings.Repeat("{apiVersion: v1, kind: List, items: [", levels) +
		"{apiVersion: v1, kind: Node, metadata: {name: edge-7}}" + strings.Repeat("]}", levels)
}

// A List inside a List is read; a tower of them is refused, and costs no more
// than its size.
func TestListsInsideLists(t *testing.T) {
	for levels := range maxLists + 1 {
		s := texts(t, nested(levels))
		told(t, s.Problems)
		if s.Nodes.Len() != 1 {
			t.Errorf("%d levels: %d Nodes", levels, s.Nodes.Len())
		}
	}
	const want = "items[0]: items: it is a List inside 4 others, and no more are read; the document is left out: write"
	s := texts(t, nested(maxLists+1), "{apiVersion: v1, kind: Node, metadata: {name: edge-8}}")
	told(t, s.Problems, want)
	if s.Nodes.Len() != 1 {
		t.Errorf("%d Nodes, want the one beside them", s.Nodes.Len())
	}
	begin := time.Now() // 25 s where each level is converted anew, milliseconds where not
	told(t, texts(t, nested(900)).Problems, want)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("900 levels took %s", took)
	}
	told(t, texts(t, "{apiVersion: v1, kind: List, items: [null, {apiVersion: v1, kind: Node, metadata: {name: edge-7}}]}").Problems)
}

// Lines are those of the file, as editors count them, in whichever document.
func TestLinesAreTheFiles(t *testing.T) {
	const good, bad = "kind: Node\napiVersion: v1\nmetadata:\n  name: a-1\n", "kind: Node\nmetadata:\n\tname: x\n"
	long := "kind: Node\napiVersion: v1\nmetadata: {name: a-2}\nspec: {providerID: " + strings.Repeat("x", 1<<13) + "}\n"
	for text, want := range map[string]string{
		bad:                                "document 1: …line 3: ",
		good + "---\n" + bad:               "document 2: …line 8: ",
		"---\n" + good + "---\n" + bad:     "document 2: …line 9: ",
		"---\n---\n# x\n--- # x\n\n" + bad: "document 3: …line 8: ",
		strings.ReplaceAll(good+"---\n"+bad, "\n", "\r\n"): "document 2: …line 8: ",
		good + "---\n" + long + "---\n" + bad:              "document 3: …line 13: ",
	} {
		problems := texts(t, text).Problems
		told(t, problems[:min(1, len(problems))], want)
	}
}

// An address in none of the ranges that are there is a mistake in one of both; of a family
// without any, and of what an API server told, nothing is known to be wrong.
func TestAnAddressInNoRange(t *testing.T) {
	const cidr = "{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: c}, spec: {cidrs: [10.97.0.0/16]}}\n---\n"
	service := func(meta, ip string) string {
		return "{apiVersion: v1, kind: Service, metadata: {name: web" + meta + "}, spec: {clusterIP: '" + ip + "', ports: [{port: 80}]}}"
	}
	for text, want := range map[string]string{
		cidr + service("", "10.96.0.1"):         "spec.clusterIPs: 10.96.0.1 is in none of the ServiceCIDRs",
		cidr + service("", "10.97.0.1"):         "",
		cidr + service("", "fd00::1"):           "",
		cidr + service(", uid: u", "10.96.0.1"): "",
		service("", "10.96.0.1"):                "",
	} {
		got := fmt.Sprint(texts(t, text).Problems)
		if (got == "[]") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: problems %s, want %q", text, got, want)
		}
	}
}
