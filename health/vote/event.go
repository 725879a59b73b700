package vote

import "time"

// Event is something that happened. What another node says is told after it has been
// verified: who it is, that it is meant for this node, and that it was not said before.
type Event interface{ event() }

// Tick says that nothing happened but that Effects.Wake has come.
type Tick struct{}

// Members is who is in the unit, whenever that changes.
type Members struct{ View *View }

// Checked is what came of Effects.Check: true is who is well.
type Checked struct{ Of map[string]bool }

// Reported is what another node sees, and what it says of itself.
type Reported struct {
	From    string
	Results []Result
	Up      bool // it reaches the cloud
	Hears   bool // more than half of the unit report to it, and have for some rounds
	Holds   bool // it leads by the unit's Lease
}

// Delivered is what came of a Report: whether it arrived, and what the other one said.
type Delivered struct {
	To    string
	OK    bool
	Reply Reply
}

// Spoke is that a node said something that counts for nothing but that it lives.
type Spoke struct{ From string }

// Answered is what another node said to a Question; Failed where it did not, and Unsent besides
// where it was not even asked, which says nothing of it.
type Answered struct {
	Question       int64
	From           string
	Results        []Result
	Failed, Unsent bool
}

// Uplink is whether this node reaches the cloud, whenever that changes.
type Uplink struct{ Up bool }

// Lease is until when this node holds the unit's, by its own clock, whenever it is renewed,
// given back or lost: a node that is starved for longer finds that it holds it no more.
type Lease struct{ Until time.Time }

// Cloud is what the cloud believes of a node, whenever that changes: whether it calls it
// ready, and which verdict stands there. It is told once of each node of a View, also where
// none stands: before that, who holds the Lease decides nothing of it. Of who is new in a View,
// also under an old name, it is told again after that: what is said of strangers is not kept.
type Cloud struct {
	Node    string
	Ready   bool
	Verdict Answer
	Cut     bool      // it rests on that the node said that it has no uplink
	By      string    // who wrote it, by its own word
	Since   time.Time // it is ready or not, by the clock of who wrote that; zero where that is not known
}

func (Tick) event()      {}
func (Members) event()   {}
func (Checked) event()   {}
func (Reported) event()  {}
func (Delivered) event() {}
func (Spoke) event()     {}
func (Answered) event()  {}
func (Uplink) event()    {}
func (Lease) event()     {}
func (Cloud) event()     {}

// Effects are what is to be done.
type Effects struct {
	Wake   time.Time  // when Tick is wanted, if nothing happens before
	Check  []string   // are to be checked now, all at once
	Report []string   // are to be sent Results, Hears, Holds, and whether this node reaches the cloud
	Ask    []Question // are to be sent to all nodes of the unit but this one
	Write  []Write
	Tell   []Note

	Results      []Result // of Report
	Hears, Holds bool     // as in Reported
}

// Question is sent to the whole unit.
type Question struct {
	Number  int64 // another one after a restart, too
	Targets []string
}

// Write is a verdict that the cloud does not have, or of which the evidence is old. It holds
// for no other node of that name.
type Write struct {
	Node    string
	UID     string
	Verdict Answer // Yes or No
	Cut     bool   // the node says that it has no uplink
	Proof   Proof
	View    string
}

// Note is something that people are to hear about.
type Note struct {
	Node string
	What What
}

// What there is to hear about.
type What string

// Notes. They are told where they become so: another leader tells them anew.
const (
	OverBudget What = "more than half of the unit say that it is dead, and too many were declared dead lately"
	Undecided  What = "it is suspected, and no answer has more than half of the unit"
	Wordless   What = "the cloud does not hear it, others reach its address, and it has said nothing itself for long: is it another machine, or does its gridmesh-health not run?"
)

// Reply is what who was reported to says.
type Reply struct {
	Ups    []string      // if more than half of the unit report to it: who reaches the cloud, the first by rank
	Leader string        // who asks the unit, as far as is known
	Age    time.Duration // since it said so itself
	Leads  bool          // it is who replies
	Dead   []string      // if it leads: by its verdicts, and by those of who led before
}
