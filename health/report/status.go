package report

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/health/vote"
	"github.com/gridmesh/gridmesh/internal/jsontype"
)

// NodeStatus is what the daemon of a node knows of its unit, as its status socket tells it. It
// is JSON that is read as a manifest. Ages are by the daemon's own counting, times by the
// node's clock.
type NodeStatus struct {
	APIVersion string    `json:"apiVersion"` // names.StatusVersion
	Kind       string    `json:"kind"`       // names.StatusKind
	Version    string    `json:"version"`    // of the program
	Node       string    `json:"node"`
	At         time.Time `json:"at"`
	Unit       string    `json:"unit"` // "" where the node is in none
	View       string    `json:"view"` // of who is in the unit (vote.View.ID)

	Uplink     bool       `json:"uplink"`          // it reaches the cloud
	Doubt      string     `json:"doubt,omitempty"` // why it does not trust what it sees
	Hears      bool       `json:"hears"`           // more than half of the unit report to it
	Leads      bool       `json:"leads"`           // it asks the unit
	Leader     string     `json:"leader,omitempty"`
	LeaderAge  float64    `json:"leaderAgeSeconds,omitempty"` // since that was true
	HoldsUntil *time.Time `json:"holdsLeaseUntil,omitempty"`

	RoundSeconds float64  `json:"roundSeconds"` // how often it checks and reports
	FreshSeconds float64  `json:"freshSeconds"` // for how long what it heard counts
	Dead         []string `json:"dead"`         // that the unit voted dead, as far as it knows

	Members []Member `json:"members"`
	Reports []Heard  `json:"reports"` // the last of each node that reports to it, and its own
}

// Member is a node of the unit.
type Member struct {
	Name      string     `json:"name"`
	Address   string     `json:"address,omitempty"`
	Lost      bool       `json:"lost,omitempty"`           // the cloud did not call it ready, when it was last heard
	Verdict   string     `json:"verdict,omitempty"`        // that stood in the cloud then: true, false
	Suspected int        `json:"suspected,omitempty"`      // for how many rounds, by who leads, since it asked the unit about it last
	Since     *time.Time `json:"suspectedSince,omitempty"` // by who leads; nil where it is not
	Observers []string   `json:"observers"`                // who checks it: its place in the rings
}

// Heard is the last report of a node.
type Heard struct {
	From    string  `json:"from"`
	Age     float64 `json:"ageSeconds"`
	Uplink  bool    `json:"uplink"`
	Hears   bool    `json:"hears"`
	Holds   bool    `json:"holdsLease,omitempty"`
	Results []Seen  `json:"results"`
}

// Seen is what it says of one that it checks: yes, no, abstain.
type Seen struct {
	Node   string `json:"node"`
	Answer string `json:"answer"`
}

// StatusOf is what a machine knows. Who is in the unit, and what was heard of them from the
// cloud, the caller adds.
func StatusOf(now time.Time, self string, cfg *vote.Config, k *vote.Known) NodeStatus {
	s := NodeStatus{
		APIVersion: names.StatusVersion, Kind: names.StatusKind, Node: self, At: now.UTC(), View: k.View.ID,
		Uplink: k.Up, Doubt: k.Doubt, Hears: k.Hears, Leads: k.Leads, RoundSeconds: cfg.Every.Seconds(), FreshSeconds: cfg.Fresh.Seconds(),
		Dead: append([]string{}, k.Dead...), Members: []Member{}, Reports: []Heard{},
	}
	if k.Leader != "" {
		s.Leader, s.LeaderAge = k.Leader, seconds(now.Sub(k.Led))
	}
	if k.Holds {
		until := k.Until.UTC()
		s.HoldsUntil = &until
	}
	for _, name := range k.View.Names() {
		s.Members = append(s.Members, Member{Name: name, Suspected: k.Suspects[name], Since: stamp(k.Doubted[name]), Observers: append([]string{}, k.View.Observers(name)...)})
		h, ok := k.Heard[name]
		if !ok {
			continue
		}
		heard := Heard{From: name, Age: seconds(now.Sub(h.At)), Uplink: h.Up, Hears: h.Hears, Holds: h.Holds, Results: []Seen{}}
		for _, r := range h.Results {
			heard.Results = append(heard.Results, Seen{r.Node, r.Answer.String()})
		}
		s.Reports = append(s.Reports, heard)
	}
	return s
}

// seconds are those of a duration, to a tenth.
func seconds(d time.Duration) float64 { return d.Round(100 * time.Millisecond).Seconds() }

// Bounds of a status, which somebody may have written: more than any daemon says.
const (
	mostMembers   = 10_000
	mostObservers = 100
	mostName      = 253 // characters of a Node's name
)

// answers that a status has.
var answers = []string{vote.Yes.String(), vote.No.String(), vote.Abstain.String()}

// readStatus reads what a daemon said, from an object of a manifest. What is wrong with it is
// a field and a text.
func readStatus(obj map[string]any) (s NodeStatus, field, text string) {
	if version, _ := obj["apiVersion"].(string); version != names.StatusVersion {
		return s, "apiVersion", fmt.Sprintf("%s is of another version of gridmesh-health; %s is read here: ask with gridmesh of that version", version, names.StatusVersion)
	}
	if kind, _ := obj["kind"].(string); kind != names.StatusKind {
		return s, "kind", fmt.Sprintf("%s has no %s; there is %s", names.StatusVersion, kind, names.StatusKind)
	}
	if s, field, text = decode[NodeStatus](obj); text != "" {
		return s, field, text
	}
	field, text = s.wrong()
	return s, field, text
}

// decode makes a type of an object, or says which field does not fit it. Fields that do not
// exist are of later versions.
func decode[T any](obj map[string]any) (t T, field, text string) {
	for m := range jsontype.Misfits(obj, reflect.TypeFor[T](), nil) {
		if !m.Unknown {
			return t, m.Path, m.Text()
		}
	}
	data, err := json.Marshal(obj)
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	if err != nil {
		return t, "", "cannot be read: " + err.Error()
	}
	return t, "", ""
}

// wrong says what no daemon writes.
func (s *NodeStatus) wrong() (field, text string) {
	switch {
	case s.Node == "" || len(s.Node) > mostName:
		return "node", "is no name of a Node"
	case s.At.IsZero() || s.At.Year() < 1970 || s.At.Year() > 9999:
		return "at", "is no time of the last decades"
	case s.FreshSeconds < 0 || s.FreshSeconds > longest.Seconds() || s.LeaderAge < 0 || s.LeaderAge > longest.Seconds():
		return "freshSeconds", "is no time, or leaderAgeSeconds is none"
	case len(s.Members) > mostMembers || len(s.Reports) > mostMembers || len(s.Dead) > mostMembers:
		return "members", fmt.Sprintf("are more than %d, or their reports are", mostMembers)
	}
	had := map[string]bool{}
	for i, m := range s.Members {
		if m.Name == "" || len(m.Name) > mostName || had[m.Name] || len(m.Observers) > mostObservers {
			return fmt.Sprintf("members[%d]", i), fmt.Sprintf("has no name, one that another one has, or more than %d observers", mostObservers)
		}
		had[m.Name] = true
	}
	for i, h := range s.Reports {
		if h.From == "" || h.Age < 0 || h.Age > longest.Seconds() || len(h.Results) > mostMembers {
			return fmt.Sprintf("reports[%d]", i), "is from nobody, or from the future"
		}
		for j, r := range h.Results {
			if !slices.Contains(answers, r.Answer) {
				return fmt.Sprintf("reports[%d].results[%d].answer", i, j), fmt.Sprintf("%q is none: %s", r.Answer, strings.Join(answers, ", "))
			}
		}
	}
	return "", ""
}

// longest is more than anything that is told is old.
const longest = 100 * 365 * 24 * time.Hour

// at is when a node said what was heard of it, by the clock of who tells.
func (s *NodeStatus) at(h *Heard) time.Time {
	return s.At.Add(-time.Duration(h.Age * float64(time.Second)))
}
