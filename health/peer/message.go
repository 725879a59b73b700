package peer

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/health/vote"
)

// request is one of ours. Its JSON may have SuperEdge's fields beside these (legacy.go).
type request struct {
	From  string `json:"from"`
	To    string `json:"to"`
	View  string `json:"view"`
	Epoch string `json:"epoch"` // of the receiver's clock
	Sent  int64  `json:"ts"`    // by the receiver's clock, in milliseconds
	Nonce string `json:"nonce"`

	UID   string `json:"uid,omitempty"`   // of the sender's Node, by its own word
	ToUID string `json:"toUID,omitempty"` // of the receiver's, as the sender knows it

	Where string `json:"where,omitempty"` // unit.where of who has no uplink, of PUT /result

	Up      bool            `json:"up,omitempty"`
	Hears   bool            `json:"hears,omitempty"`
	Holds   bool            `json:"holds,omitempty"`
	Results answers         `json:"results,omitempty"` // of PUT /result
	Targets []requestTarget `json:"targets,omitempty"` // of POST /probe
}

// nonce is that of a request that was decoded.
func (m request) nonce() (n [nonceBytes]byte) {
	_, _ = hex.Decode(n[:], []byte(m.Nonce))
	return n
}

// requestTarget is a node that is asked about, in SuperEdge's form.
type requestTarget struct {
	Name     string `json:"name,omitempty"`
	IP       string `json:"ip,omitempty"`
	Port     int32  `json:"port,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	Normal   *bool  `json:"normal,omitempty"` // of a reply

	UID  string     `json:"uid,omitempty"` // ours: who is meant, as the asker knows it
	Addr netip.Addr `json:"addr,omitzero"`
}

// reply is one of ours, to both.
type reply struct {
	From    string  `json:"from"`
	Epoch   string  `json:"epoch"`
	Now     int64   `json:"now"`
	Refused refusal `json:"refused,omitempty"`

	Ups     []string `json:"ups,omitempty"`
	Leader  string   `json:"leader,omitempty"`
	Age     int64    `json:"age,omitempty"` // milliseconds
	Leads   bool     `json:"leads,omitempty"`
	Dead    []string `json:"dead,omitempty"`
	Results answers  `json:"results,omitempty"`
	Members []Member `json:"members,omitempty"` // of the unit, for who has no uplink and knows others
}

// answers are those about nodes, by name: yes, no or abstain.
type answers map[string]string

// Bounds of what is read.
const (
	mostTargets = 100 // SuperEdge's
	mostName    = 253 // of a Kubernetes object
	mostAge     = 24 * time.Hour
	mostUID     = 64
	mostMembers = 5000
	MostAddrs   = 16 // of a member; more are not passed on
	mostList    = 512 << 10
)

var words = map[string]vote.Answer{vote.Yes.String(): vote.Yes, vote.No.String(): vote.No, vote.Abstain.String(): vote.Abstain}

func newAnswers(results []vote.Result) answers {
	a := make(answers, len(results))
	for _, r := range results {
		if r.Answer != vote.None {
			a[r.Node] = r.Answer.String()
		}
	}
	return a
}

// results are sorted by name.
func (a answers) results() (list []vote.Result) {
	for node, word := range a {
		list = append(list, vote.Result{Node: node, Answer: words[word]})
	}
	return sorted(list)
}

func sorted(list []vote.Result) []vote.Result {
	slices.SortFunc(list, func(x, y vote.Result) int { return strings.Compare(x.Node, y.Node) })
	return list
}

func (a answers) check() error {
	for node, word := range a {
		if _, ok := words[word]; !ok || !isName(node) {
			return fmt.Errorf("an answer about %.20q that is %.20q", node, word)
		}
	}
	return nil
}

func isName(name string) bool { return name != "" && len(name) <= mostName }

// decodeRequest reads what was signed.
func decodeRequest(body []byte) (m request, err error) {
	if err := json.Unmarshal(body, &m); err != nil {
		return m, err
	}
	switch {
	case !isName(m.From) || !isName(m.To):
		return m, errors.New("no sender, or no receiver")
	case !isNonce(m.Nonce):
		return m, errors.New("no nonce")
	case len(m.UID) > mostUID || len(m.ToUID) > mostUID:
		return m, errors.New("a UID that is none")
	case len(m.Targets) > mostTargets || len(m.Results) > mostTargets:
		return m, fmt.Errorf("about more than %d nodes", mostTargets)
	}
	for _, t := range m.Targets {
		if !isName(t.Name) || len(t.UID) > mostUID {
			return m, errors.New("a target without a name")
		}
	}
	return m, m.Results.check()
}

// decodeReply reads what was signed.
func decodeReply(body []byte) (r reply, err error) {
	if err := json.Unmarshal(body, &r); err != nil {
		return r, err
	}
	switch {
	case !isName(r.From) || !isNonce(r.Epoch):
		return r, errors.New("no sender, or no clock")
	case len(r.Results) > mostTargets:
		return r, fmt.Errorf("about more than %d nodes", mostTargets)
	case r.Age < 0 || r.Age > mostAge.Milliseconds():
		return r, fmt.Errorf("an age of %d ms", r.Age)
	}
	if !areMembers(r.Members) {
		r.Members = nil // the rest says nothing of them
	}
	return r, r.Results.check()
}

// areMembers reports whether a list is one of members, sorted by name.
func areMembers(list []Member) bool {
	for i, m := range list {
		if !isName(m.Name) || m.UID == "" || len(m.UID) > mostUID || len(m.Addrs) > MostAddrs || i > 0 && list[i-1].Name >= m.Name {
			return false
		}
	}
	return len(list) <= mostMembers
}

// encode leaves out what is too much to be read.
func (r *reply) encode() ([]byte, error) {
	if len(r.Members) > mostMembers {
		r.Members = nil
	}
	text, err := json.Marshal(r)
	if err == nil && r.Members != nil && len(text) > mostList {
		r.Members = nil
		return json.Marshal(r)
	}
	return text, err
}

func (r *reply) setVote(v vote.Reply) {
	r.Ups, r.Leader, r.Leads, r.Dead = v.Ups, v.Leader, v.Leads, v.Dead
	r.Age = min(max(0, v.Age), mostAge).Milliseconds()
}

func (r *reply) vote() vote.Reply {
	return vote.Reply{Ups: r.Ups, Leader: r.Leader, Age: time.Duration(r.Age) * time.Millisecond, Leads: r.Leads, Dead: r.Dead}
}
