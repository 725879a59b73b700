package main

import (
	"strings"
	"testing"
	"time"
)

// What the node's Envoy sends nobody to is marked where its agent knows; where nobody
// knows that is said, for a row without a mark would say that all is well.
func TestViewMarksEjections(t *testing.T) {
	const (
		well = `"envoys": [{"version": "1.40.0"}], `
		row  = "default/web  -     10.96.0.10:80/tcp  1     10.244.8.2:8080  edge-8  "
	)
	now, old := time.Now().Format(time.RFC3339), time.Now().Add(-time.Minute).Format(time.RFC3339)
	list := func(endpoint string) string {
		return `"list": [{"service": "default/web", "cluster": "10.96.0.10:80", "out": 1, "of": 1` + endpoint + `}]}`
	}
	for what, c := range map[string]struct{ says, table, doc string }{
		"ejected": {
			well + `"ejections": {"at": "` + now + `", ` + list(`, "endpoints": [{"address": "10.244.8.2:8080", "tier": 0, "ejected": true}]`),
			row + "ejected by Envoy: a connection to it failed\n", `"envoy":"ejected"`,
		},
		"unhealthy": {
			well + `"ejections": {"at": "` + now + `", ` + list(`, "endpoints": [{"address": "10.244.8.2:8080", "unhealthy": true}]`),
			row + "Envoy sends nobody there: unhealthy, as it was told\n", `"envoy":"unhealthy"`,
		},
		"which is not known": {
			well + `"ejections": {"at": "` + now + `", ` + list(""),
			"1 of 1 endpoints are ejected by Envoy, which was not asked just now which\n", `"unmarked":1`,
		},
		"more than are listed": {
			well + `"ejections": {"at": "` + now + `", "more": 3}`,
			"endpoints of 3 more clusters are ejected by Envoy, and not marked here\n", `"more":3`,
		},
		"old": {
			well + `"ejections": {"at": "` + old + `"}`,
			"what Envoy has ejected is what it said 1m", `"ejections":{"at":"` + old + `"}`,
		},
		"no answer":   {well + `"ejections": {"error": "no such file"}`, "what Envoy has ejected is unknown: its admin socket gives no answer: no such file\n", `"ejections":{"unknown":"its admin`},
		"not asked":   {well + `"services": 1`, "what Envoy has ejected is unknown: the agent does not say\n", `"ejections":{"unknown":"the agent does not say"}`},
		"no Envoy":    {`"envoys": [], "ejections": {"at": "` + now + `"}`, "node edge-7\nSERVICE", `"ejections":{"unknown":"no Envoy is connected"}`}, // a note says so
		"none":        {well + `"ejections": {"at": "` + now + `"}`, row + "\n", `"ejections":{"at":"` + now + `"}`},
		"by no Envoy": {`"envoys": [], "datapath": "kernel"`, "node edge-7\nSERVICE", `"node"`},
	} {
		socket := agentOf(t, `{"node": "edge-7", `+c.says+`}`)
		_, table, log := gridmesh(t, "view", "--socket", socket)
		_, doc, _ := gridmesh(t, "view", "--socket", socket, "-o", "json")
		if !strings.Contains(table, c.table) || !strings.Contains(doc, c.doc) || (log != "") != (what == "no Envoy") {
			t.Errorf("%s: %s%s%s\nwant %s and %s", what, table, doc, log, c.table, c.doc)
		}
		told := strings.Contains(table, "ject") || strings.Contains(table, "unhealthy")
		if told != (what != "none" && what != "no Envoy" && what != "by no Envoy") || (what == "by no Envoy") == strings.Contains(doc, "ejections") {
			t.Errorf("%s: %s%s", what, table, doc)
		}
		_, table, _ = gridmesh(t, "view", "--socket", socket, "--node", "edge-8")
		_, doc, _ = gridmesh(t, "view", "--socket", socket, "--node", "edge-8", "-o", "json")
		if strings.Contains(table+doc, "ject") || strings.Contains(table+doc, "unhealthy") {
			t.Errorf("%s: of another node's Envoy the agent knows nothing: %s%s", what, table, doc)
		}
	}
	if _, table, _ := gridmesh(t, "view", "--socket", agent(t, ""), "--node", "edge-7", "--datapath", "envoy"); !strings.Contains(table, "what Envoy has ejected is unknown: the agent does not say\n") {
		t.Errorf("an agent without a status: %s", table)
	}
}

// Of a packet that Envoy is given it is told, too, and what is not known.
func TestTraceMarksEjections(t *testing.T) {
	const well = `"envoys": [{"version": "1.40.0"}], `
	now := time.Now().Format(time.RFC3339)
	list := well + `"ejections": {"at": "` + now + `", "list": [{"service": "default/web", "cluster": "10.96.0.10:80", "out": 1, "of": 1`
	for what, c := range map[string]struct{ says, table, doc string }{
		"ejected": {
			list + `, "endpoints": [{"address": "10.244.8.2:8080", "tier": 0, "ejected": true}]}]}`,
			"     tier 1: 10.244.8.2:8080 on edge-8 (ejected by Envoy: a connection to it failed)\nverdict: ", `"envoy":"ejected"`,
		},
		"which is not known": {list + `}]}`, "     1 of 1 endpoints are ejected by Envoy, which was not asked just now which\nverdict: ", `"unmarked":1`},
		"not asked":          {well + `"services": 1`, "what Envoy has ejected is unknown: the agent does not say\nverdict: ", `"ejections":{"unknown":"the agent does not say"}`},
		"none":               {well + `"ejections": {"at": "` + now + `"}`, "     tier 1: 10.244.8.2:8080 on edge-8\nverdict: ", `"ejections":{"at":"` + now + `"}`},
		"by no Envoy":        {`"envoys": [], "datapath": "kernel"`, "     tier 1: 10.244.8.2:8080 on edge-8\nverdict: ", `"tiers"`},
	} {
		args := []string{"trace", "--socket", agentOf(t, `{"node": "edge-7", `+c.says+`}`), "--from", "10.244.7.9", "--to", "10.96.0.10:80"}
		_, table, _ := gridmesh(t, args...)
		code, doc, log := gridmesh(t, append(args, "-o", "json")...)
		if code != 0 || !strings.Contains(table, c.table) || !strings.Contains(doc, c.doc) || (what == "by no Envoy") == strings.Contains(doc, "ejections") {
			t.Errorf("%s: code %d: %s%s%s\nwant %s and %s", what, code, table, doc, log, c.table, c.doc)
		}
		_, table, _ = gridmesh(t, append(args, "--node", "edge-8")...)
		_, doc, _ = gridmesh(t, append(args, "--node", "edge-8", "-o", "json")...)
		if strings.Contains(table+doc, "ject") {
			t.Errorf("%s: of another node's Envoy the agent knows nothing: %s%s", what, table, doc)
		}
	}
}
