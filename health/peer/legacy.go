package peer

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/health/vote"
)

// MostTold is about how many nodes a report may be; SuperEdge's nodes count what they are told.
const MostTold = mostTargets

// SuperEdge's messages up to v0.7 (G1), which have no names of their own for JSON.
type (
	resultG1 struct {
		SourceIP     string
		ResultDetail map[string]detailG1
		Hmac         string
	}
	detailG1 struct {
		Normal bool
		Hamc   string // sic
		Time   time.Time
	}
)

// And from v0.8 on (G2).
type (
	resultG2 struct {
		SourceIP     string              `json:"sourceIP,omitempty"`
		ResultDetail map[string]detailG2 `json:"resultDetail,omitempty"`
		Hmac         string              `json:"hmac,omitempty"`
	}
	detailG2 struct {
		Normal bool   `json:"normal,omitempty"`
		Hmac   string `json:"hmac,omitempty"`
		Time   int64  `json:"time,omitempty"`
	}
)

// legacyMAC is SuperEdge's: over the JSON of the address, and that of what was found as the
// receiver makes it again. So the generations' differ.
func legacyMAC(k key, source string, details any) ([]byte, error) {
	first, err := json.Marshal(source)
	if err != nil {
		return nil, err
	}
	second, err := json.Marshal(details)
	if err != nil {
		return nil, err
	}
	return sum(k.raw, first, second), nil
}

// encodeForBoth makes a report that nodes of ours read, and those of SuperEdge. Who is
// abstained about is not in theirs: they know no such answer.
func encodeForBoth(d Dialect, u *unit, k key, m request) ([]byte, error) {
	source, err := selfIP(u, m.To)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{source: true} // as SuperEdge's nodes say, who count that
	for node, word := range m.Results {
		if a := u.addr(node); a.IsValid() && words[word] != vote.Abstain {
			known[a.String()] = words[word] == vote.Yes
		}
	}
	if d == G1 {
		theirs := resultG1{SourceIP: source, ResultDetail: map[string]detailG1{}}
		for ip, well := range known {
			theirs.ResultDetail[ip] = detailG1{Normal: well}
		}
		mac, err := legacyMAC(k, source, theirs.ResultDetail)
		theirs.Hmac = hex.EncodeToString(mac)
		return marshal(err, struct {
			request
			resultG1
		}{m, theirs})
	}
	theirs := resultG2{SourceIP: source, ResultDetail: map[string]detailG2{}}
	for ip, well := range known {
		theirs.ResultDetail[ip] = detailG2{Normal: well}
	}
	mac, err := legacyMAC(k, source, theirs.ResultDetail)
	theirs.Hmac = hex.EncodeToString(mac)
	return marshal(err, struct {
		request
		resultG2
	}{m, theirs})
}

func marshal(err error, v any) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

func selfIP(u *unit, to string) (string, error) {
	if a := u.from(u.addr(to)); a.IsValid() {
		return a.String(), nil
	}
	return "", errors.New("this node has no address of the other one's family, and SuperEdge knows nodes by these")
}

// legacyReport is what a SuperEdge node sees, by address.
type legacyReport struct {
	source string
	well   map[string]bool
}

// decodeLegacy reads SuperEdge's message of either generation, and verifies it as it would.
func decodeLegacy(keys []key, body []byte) (r legacyReport, why refusal) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return r, malformed
	}
	var mac string
	var details any
	r.well = map[string]bool{}
	if _, ok := fields["SourceIP"]; ok {
		var m resultG1
		if json.Unmarshal(body, &m) != nil {
			return r, malformed
		}
		r.source, mac, details = m.SourceIP, m.Hmac, m.ResultDetail
		for ip, d := range m.ResultDetail {
			r.well[ip] = d.Normal
		}
	} else {
		var m resultG2
		if json.Unmarshal(body, &m) != nil {
			return r, malformed
		}
		r.source, mac, details = m.SourceIP, m.Hmac, m.ResultDetail
		for ip, d := range m.ResultDetail {
			r.well[ip] = d.Normal
		}
	}
	if _, ok := signed(keys, mac, func(k key) []byte {
		of, err := legacyMAC(k, r.source, details)
		if err != nil {
			return nil // a time that JSON has no form for
		}
		return of
	}); !ok {
		return r, signature
	}
	return r, ""
}

// mostLegacy is what a SuperEdge node's report may have: all nodes of the unit by address.
func mostLegacy(nodes int) int64 { return int64(4<<10 + nodes*256) }

// legacyResult takes a SuperEdge node's report.
func (p *Peer) legacyResult(w http.ResponseWriter, c *call) {
	if why := p.takeLegacy(w, c); why != "" {
		p.deny(w, c, why)
		return
	}
	p.metrics.received.WithLabelValues(c.URL.Path, "superedge").Inc()
	w.WriteHeader(http.StatusOK)
}

func (p *Peer) takeLegacy(w http.ResponseWriter, c *call) refusal {
	keys := *p.keys.Load()
	switch {
	case p.cfg.Legacy == None:
		return unsigned
	case len(keys) == 0:
		return noKey
	}
	body, why := readBody(w, c.Request, mostLegacy(len(c.u.Addrs)))
	if why != "" {
		return why
	}
	r, why := decodeLegacy(keys, body)
	if why != "" {
		return why
	}
	source, err := netip.ParseAddr(r.source)
	name := c.u.byAddr[source.Unmap()]
	switch {
	case err != nil || name == "" || name == c.u.Self:
		return stranger
	case !p.cfg.NAT && !c.u.at(name, c.from):
		return address
	case p.isOurs(name):
		return downgrade
	}
	results := ofUnit(c.u, name, byName(c.u, r.well))
	p.mu.Lock()
	p.spoke[name] = spoken{p.now(), results}
	p.mu.Unlock()
	p.node.Report(c.Context(), vote.Reported{From: name, Results: results, Up: true}) // it does not say, and without an uplink the cloud calls it lost
	return ""
}

// byName are a SuperEdge node's results, as ours are.
func byName(u *unit, well map[string]bool) (list []vote.Result) {
	for ip, ok := range well {
		a, err := netip.ParseAddr(ip)
		if name := u.byAddr[a.Unmap()]; err == nil && name != "" {
			list = append(list, vote.Result{Node: name, Answer: answerOf(ok)})
		}
	}
	return sorted(list)
}

func answerOf(well bool) vote.Answer {
	if well {
		return vote.Yes
	}
	return vote.No
}

// probeMessage is SuperEdge's POST /probe, and its reply.
type probeMessage struct {
	Targets        []requestTarget `json:"targets,omitempty"`
	SourceNodeIP   string          `json:"sourceNodeIP,omitempty"`
	SourceNodeName string          `json:"sourceNodeName,omitempty"`
}

// mostTargetName is SuperEdge's.
const mostTargetName = 128

func decodeProbe(body []byte) (m probeMessage, err error) {
	if err := json.Unmarshal(body, &m); err != nil {
		return m, err
	}
	if len(m.Targets) > mostTargets {
		return m, fmt.Errorf("more than %d targets", mostTargets)
	}
	for _, t := range m.Targets {
		if len(t.Name) > mostTargetName || !slices.Contains([]string{"", "tcp", "icmp"}, t.Protocol) {
			return m, fmt.Errorf("a target named %.20q by %.20q", t.Name, t.Protocol)
		}
	}
	return m, nil
}

// legacyProbe answers who is on this node, or a SuperEdge node. Nodes of the unit are checked
// as this node checks them, whatever port is wanted, and nobody else: who is no node of it has
// no answer.
func (p *Peer) legacyProbe(w http.ResponseWriter, c *call) {
	if !c.onNode() && p.cfg.Legacy == None {
		p.deny(w, c, unsigned)
		return
	}
	body, why := readBody(w, c.Request, mostRequest)
	if why != "" {
		p.deny(w, c, why)
		return
	}
	m, err := decodeProbe(body)
	if err != nil {
		p.deny(w, c, malformed)
		return
	}
	names := make([]string, len(m.Targets))
	for i, t := range m.Targets {
		a, _ := netip.ParseAddr(t.IP)
		names[i] = c.u.byAddr[a.Unmap()]
	}
	results, ok := p.look(c.Context(), p.asked, c.u, names)
	if !ok {
		p.deny(w, c, busy)
		return
	}
	for i := range m.Targets {
		m.Targets[i].Normal = nil
		for _, r := range results {
			if r.Node == names[i] && r.Answer != vote.Abstain {
				well := r.Answer == vote.Yes
				m.Targets[i].Normal = &well
			}
		}
	}
	p.metrics.received.WithLabelValues(c.URL.Path, "superedge").Inc()
	m.SourceNodeName, m.SourceNodeIP = c.u.Self, c.u.addr(c.u.Self).String()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(m)
}

// decodeLegacyReply reads what a SuperEdge node answers: to a report nothing.
func decodeLegacyReply(path string, u *unit, text []byte) (got reply, err error) {
	if path == pathResult {
		return got, nil
	}
	m, err := decodeProbe(text)
	if err != nil {
		return got, fmt.Errorf("what it replies: %w", err)
	}
	got.Results = answers{}
	for _, t := range m.Targets {
		a, _ := netip.ParseAddr(t.IP)
		if name := u.byAddr[a.Unmap()]; name != "" && t.Normal != nil {
			got.Results[name] = answerOf(*t.Normal).String()
		}
	}
	return got, nil
}
