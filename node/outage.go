package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/node/hold"
)

const (
	// recordEvery is how old the record of a hold may be: of a process that is
	// killed, the next one does not know the last of it.
	recordEvery = 5 * time.Second
	// vouchFor is how old the last contact may be for which a process that begins
	// takes the last good state for current.
	vouchFor = 5 * time.Minute
)

// bootIDFile has another content after each boot.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

func bootID() string {
	id, _ := os.ReadFile(bootIDFile) // empty where it cannot be read, and so another each time
	return strings.TrimSpace(string(id))
}

// outage is the content of the file of that name: a line of JSON, then the boot
// that it was written in. It is there while an outage lasts and until what is
// held after it was let go.
type outage struct {
	Since       time.Time `json:"since"`   // its beginning
	LastContact time.Time `json:"heard"`   // the cloud, when this was written
	Holding     bool      `json:"holding"` // it is over, and a hold goes on
	// Stale: the last good state on disk is of more than vouchFor before it, for
	// the disk did not take a newer one.
	Stale bool      `json:"stale,omitempty"`
	Past  hold.Past `json:"past"`
	boot  string
}

func (o outage) encode() []byte {
	line, err := json.Marshal(o)
	if err != nil {
		line = []byte("{}") // no time that JSON has; that the file is there matters most
	}
	return []byte(string(line) + "\n" + o.boot + "\n")
}

// decodeOutage reads as much as can be read.
func decodeOutage(data []byte) (o outage) {
	line, boot, _ := bytes.Cut(bytes.TrimSpace(data), []byte("\n"))
	if json.Unmarshal(line, &o) != nil {
		o = outage{}
	}
	o.boot = string(boot)
	return o
}

// past is what a hold begins with when the cloud is heard of at a time. A hold
// that went on then goes on now, but where there may have been another outage.
func (o outage) past(now time.Time) hold.Past {
	switch gap := now.Sub(o.LastContact); {
	case !o.Holding:
		return o.Past.Interrupted()
	case gap < 0 || gap >= outageAfter:
		return o.Past.After(recordEvery).Interrupted()
	default:
		return o.Past.After(gap)
	}
}

// phase is what there is to record.
type phase int

const (
	phaseCalm phase = iota // nothing: there is no file
	phaseCut               // an outage lasts
	phaseHeld              // something is held after one
)

// note is what is on disk for the process after this one, or is to be.
type note struct {
	phase   phase
	stale   bool      // as in outage
	at      time.Time // when outage was made
	outage  []byte
	contact time.Time // the last one: when the file of that name was changed
}

// notebook keeps notes in a directory.
type notebook struct{ dir, boot string }

func (b notebook) path(name string) string { return filepath.Join(b.dir, name) }

// put leads from one note to another, as far as it can, and returns what is on
// disk then.
func (b notebook) put(was, want note) (is note, err error) {
	is = was
	if want.phase != was.phase || !want.at.Equal(was.at) {
		path := b.path("outage")
		if want.phase != phaseCalm {
			err = atomicfile.Write(path, want.outage)
		} else if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err == nil {
			is = want
			is.contact = was.contact
		}
	}
	if want.contact.Equal(was.contact) {
		return is, err
	}
	stamped := b.stamp(want.contact, was.contact.IsZero())
	if stamped == nil {
		is.contact = want.contact
	}
	return is, errors.Join(err, stamped)
}

// stamp notes a contact. It is what the file's time is for, so that nothing is
// written and no disk waited for every few seconds; what a power cut takes of
// it is half a minute.
func (b notebook) stamp(at time.Time, first bool) error {
	path := b.path("contact")
	if !first {
		if err := os.Chtimes(path, at, at); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return errors.Join(atomicfile.Write(path, []byte(b.boot+"\n")), os.Chtimes(path, at, at))
}

// Bounds of what is read: a boot, and 100,000 endpoints that are held.
const maxContact, maxOutage = 4 << 10, 64 << 20

// outage reads the record; false where there is none. One that cannot be read
// is one; what is none of ours is set aside, and says nothing.
func (b notebook) outage() (outage, bool) {
	data, _, err := b.read("outage", maxOutage)
	return decodeOutage(data), err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, atomicfile.ErrOdd)
}

// contact reads when the process before had the last contact, and in which
// boot; zero where that is not known.
func (b notebook) contact() (at time.Time, boot string) {
	data, info, err := b.read("contact", maxContact)
	if err != nil {
		return time.Time{}, ""
	}
	return info.ModTime(), strings.TrimSpace(string(data))
}

// read reads a note. What is in its place and no note is set aside, for it would
// be in the way of the next one.
func (b notebook) read(name string, most int64) ([]byte, fs.FileInfo, error) {
	data, info, err := atomicfile.Read(b.path(name), most)
	if errors.Is(err, atomicfile.ErrOdd) {
		_, aside := atomicfile.SetAside(b.path(name))
		err = errors.Join(err, aside)
	}
	return data, info, err
}
