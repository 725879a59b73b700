package statedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/node/outage"
)

// bootIDFile has another content after each boot.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// BootID tells this boot from others; empty where it cannot be read, and so
// another each time.
func BootID() string {
	id, _ := os.ReadFile(bootIDFile)
	return strings.TrimSpace(string(id))
}

// The names of the notes in a state directory.
const (
	OutageFile  = "outage"
	ContactFile = "contact"
)

// Notebook keeps notes in a directory.
type Notebook struct{ Dir, Boot string }

func (b Notebook) path(name string) string { return filepath.Join(b.Dir, name) }

// Read is what the processes before have noted, and what of it is on disk now.
func (b Notebook) Read() (outage.Noted, outage.Note) {
	record, there := b.record()
	at, boot := b.contact()
	noted, onDisk := outage.Noted{Record: record, Recorded: there, Contact: at, Boot: boot}, outage.Note{}
	if there {
		onDisk = outage.Note{Phase: outage.Cut, Stale: record.Stale}
	}
	return noted, onDisk
}

// Put leads from one note to another, as far as it can, and returns what is on
// disk then.
func (b Notebook) Put(was, want outage.Note) (is outage.Note, err error) {
	is = was
	if want.Phase != was.Phase || !want.At.Equal(was.At) {
		path := b.path(OutageFile)
		if want.Phase != outage.Calm {
			err = atomicfile.Write(path, want.Record)
		} else if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err == nil {
			is = want
			is.Contact = was.Contact
		}
	}
	if want.Contact.Equal(was.Contact) {
		return is, err
	}
	stamped := b.stamp(want.Contact, was.Contact.IsZero())
	if stamped == nil {
		is.Contact = want.Contact
	}
	return is, errors.Join(err, stamped)
}

// stamp notes a contact. It is what the file's time is for, so that nothing is
// written and no disk waited for every few seconds; what a power cut takes of
// it is half a minute.
func (b Notebook) stamp(at time.Time, first bool) error {
	path := b.path(ContactFile)
	if !first {
		if err := os.Chtimes(path, at, at); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return errors.Join(atomicfile.Write(path, []byte(b.Boot+"\n")), os.Chtimes(path, at, at))
}

// Bounds of what is read: a boot, and 100,000 endpoints that are held.
const maxContact, maxRecord = 4 << 10, 64 << 20

// record reads the record of an outage; false where there is none. One that
// cannot be read is one; what is none of ours is set aside, and says nothing.
func (b Notebook) record() (outage.Record, bool) {
	data, _, err := b.read(OutageFile, maxRecord)
	return outage.DecodeRecord(data), err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, atomicfile.ErrOdd)
}

// contact reads when the process before had the last contact, and in which
// boot; zero where that is not known.
func (b Notebook) contact() (at time.Time, boot string) {
	data, info, err := b.read(ContactFile, maxContact)
	if err != nil {
		return time.Time{}, ""
	}
	if boot = strings.TrimSpace(string(data)); strings.ContainsFunc(boot, func(r rune) bool { return r < ' ' || r > '~' }) {
		return time.Time{}, "" // whoever wrote that also made the file's time
	}
	return info.ModTime(), boot
}

// read reads a note. What is in its place and no note is set aside, for it would
// be in the way of the next one.
func (b Notebook) read(name string, most int64) ([]byte, fs.FileInfo, error) {
	data, info, err := atomicfile.Read(b.path(name), most)
	if errors.Is(err, atomicfile.ErrOdd) {
		_, aside := atomicfile.SetAside(b.path(name))
		err = errors.Join(err, aside)
	}
	return data, info, err
}
