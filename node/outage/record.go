package outage

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/gridmesh/gridmesh/node/hold"
)

// RecordEvery is how old the record of a hold may be: of a process that is
// killed, the next one does not know the last of it.
const RecordEvery = 5 * time.Second

// Record is what a process leaves of an outage: a line of JSON, then the boot
// that it was written in. It is there while an outage lasts and until what is
// held after it was let go.
type Record struct {
	Since       time.Time `json:"since"`       // its beginning
	LastContact time.Time `json:"lastContact"` // with the cloud, when this was written
	Holding     bool      `json:"holding"`     // it is over, and a hold goes on
	// Stale: the last good state on disk is of more than VouchFor before it, for
	// the disk did not take a newer one.
	Stale bool      `json:"stale,omitempty"`
	Past  hold.Past `json:"past"`
	Boot  string    `json:"-"`
}

// Encode is what a file has of it.
func (r Record) Encode() []byte {
	line, err := json.Marshal(r)
	if err != nil {
		line = []byte("{}") // no time that JSON has; that the file is there matters most
	}
	return []byte(string(line) + "\n" + r.Boot + "\n")
}

// DecodeRecord reads as much as can be read.
func DecodeRecord(data []byte) (r Record) {
	line, boot, _ := bytes.Cut(bytes.TrimSpace(data), []byte("\n"))
	if json.Unmarshal(line, &r) != nil {
		r = Record{}
	}
	r.Boot = string(boot)
	return r
}

// PastAt is what a hold begins with at a contact with the cloud. A hold
// that went on then goes on now, but where there may have been another outage.
func (r Record) PastAt(now time.Time) hold.Past {
	switch gap := now.Sub(r.LastContact); {
	case !r.Holding:
		return r.Past.Interrupted()
	case gap < 0 || gap >= After:
		return r.Past.After(RecordEvery).Interrupted()
	default:
		return r.Past.After(gap)
	}
}

// Phase is what there is to record.
type Phase int

// The phases of an outage.
const (
	Calm Phase = iota // nothing: there is no file
	Cut               // an outage lasts
	Held              // something is held after one
)

// Note is what is on disk for the process after this one, or is to be.
type Note struct {
	Phase   Phase
	Stale   bool      // as in Record
	At      time.Time // when Record was made
	Record  []byte
	Contact time.Time // the last one
}
