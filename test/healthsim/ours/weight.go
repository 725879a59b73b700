package ours

import (
	"strconv"

	"github.com/gridmesh/gridmesh/health/vote"
)

// What health/peer's messages weigh, over IPv4: the first line and headers of each, and the
// JSON that is always there. TestWeights holds them against two real peers.
const (
	reportLine   = 171 // PUT /result
	questionLine = 170 // POST /probe
	replyLine    = 202
	requestJSON  = 291 // from, to, view, epoch, ts, nonce, both UIDs, without names
	replyJSON    = 70  // from, epoch, now, without the name
)

func reportBytes(r vote.Reported) int {
	return reportLine + requestJSON + 2*nameBytes + flagsBytes(r.Up, r.Hears, r.Holds) + resultsBytes(r.Results)
}

func questionBytes(targets []string) int {
	bytes := questionLine + requestJSON + 2*nameBytes
	if len(targets) > 0 {
		bytes += len(`,"targets":[]`)
	}
	for _, name := range targets {
		bytes += len(`{"name":"","uid":"","addr":""},`) + len(name) + uidBytes + addrBytes
	}
	return bytes
}

func replyBytes(r vote.Reply) int {
	bytes := replyLine + replyJSON + nameBytes
	if r.Leader != "" {
		bytes += len(`,"leader":"","age":`) + len(r.Leader) + len(strconv.Itoa(int(r.Age.Milliseconds())))
	}
	if r.Leads {
		bytes += len(`,"leads":true`)
	}
	return bytes + namesBytes(`,"ups":[]`, r.Ups) + namesBytes(`,"dead":[]`, r.Dead)
}

func answerBytes(results []vote.Result) int {
	return replyLine + replyJSON + nameBytes + resultsBytes(results)
}

// What a simulated node's name has, and what its UID and address would.
const (
	nameBytes = len("node-0000")
	uidBytes  = len("01234567-89ab-cdef-0123-456789abcdef")
	addrBytes = len("192.0.2.10")
)

func namesBytes(field string, names []string) int {
	if len(names) == 0 {
		return 0
	}
	bytes := len(field) - 1
	for _, name := range names {
		bytes += len(`"",`) + len(name)
	}
	return bytes
}

func resultsBytes(results []vote.Result) int {
	if len(results) == 0 {
		return 0
	}
	bytes := len(`,"results":{}`) - 1
	for _, r := range results {
		bytes += len(`"":"",`) + len(r.Node) + len(r.Answer.String())
	}
	return bytes
}

func flagsBytes(up, hears, holds bool) (bytes int) {
	for name, on := range map[string]bool{`,"up":true`: up, `,"hears":true`: hears, `,"holds":true`: holds} {
		if on {
			bytes += len(name)
		}
	}
	return bytes
}
