package statedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/node/outage"
)

// contactAt is of the past, so that it is told from the time of a write.
var contactAt = time.Now().Add(-time.Hour).Truncate(time.Second)

// What is noted is read by the next process, a step at a time, and a calm leaves
// no record.
func TestNotebook(t *testing.T) {
	b := Notebook{Dir: t.TempDir(), Boot: "this boot"}
	if noted, onDisk := b.Read(); noted.Recorded || !noted.Contact.IsZero() || onDisk.Phase != outage.Calm {
		t.Errorf("an empty directory: %+v, %+v", noted, onDisk)
	}
	record := outage.Record{Since: contactAt, LastContact: contactAt, Stale: true, Boot: b.Boot}
	cut := outage.Note{Phase: outage.Cut, Stale: true, At: contactAt, Record: record.Encode(), Contact: contactAt}
	is, err := b.Put(outage.Note{}, cut)
	if err != nil || is.Phase != outage.Cut || !is.Contact.Equal(contactAt) {
		t.Errorf("put: %+v, %v", is, err)
	}
	noted, onDisk := b.Read()
	if !noted.Recorded || !noted.Record.Since.Equal(contactAt) || !noted.Contact.Equal(contactAt) || noted.Boot != b.Boot {
		t.Errorf("read: %+v", noted)
	}
	if onDisk.Phase != outage.Cut || !onDisk.Stale {
		t.Errorf("on disk: %+v", onDisk)
	}
	later := outage.Note{Contact: contactAt.Add(time.Minute)}
	for range 2 { // also where the record is gone already
		if is, err = b.Put(cut, later); err != nil || is.Phase != outage.Calm {
			t.Errorf("put: %+v, %v", is, err)
		}
	}
	if noted, _ := b.Read(); noted.Recorded || !noted.Contact.Equal(later.Contact) || noted.Boot != b.Boot {
		t.Errorf("read: %+v", noted)
	}
	must(t, os.Remove(filepath.Join(b.Dir, "contact"))) // by somebody else
	if _, err := b.Put(later, outage.Note{Contact: contactAt}); err != nil {
		t.Error(err)
	}
	if noted, _ := b.Read(); !noted.Contact.Equal(contactAt) || noted.Boot != b.Boot {
		t.Errorf("a contact after its file was removed: %+v", noted)
	}
}

// What is in the place of a note and is none is set aside, says nothing, and is in
// no note's way.
func TestOddNotes(t *testing.T) {
	odd := map[string]func(string) error{
		"a little too large": func(path string) error { return os.WriteFile(path, make([]byte, maxRecord+1), 0o600) },
	}
	for name, put := range testkit.OddFiles {
		odd[name] = put
	}
	for name, put := range odd {
		t.Run(name, func(t *testing.T) {
			b := Notebook{Dir: t.TempDir(), Boot: "this boot"}
			for _, file := range []string{"outage", "contact"} {
				must(t, put(filepath.Join(b.Dir, file)))
			}
			if noted, onDisk := b.Read(); noted.Recorded || !noted.Contact.IsZero() || noted.Boot != "" || onDisk.Phase != outage.Calm {
				t.Errorf("read: %+v, %+v", noted, onDisk)
			}
			for _, file := range []string{"outage", "contact"} {
				if _, err := os.Lstat(filepath.Join(b.Dir, file+".bad")); err != nil {
					t.Errorf("%s was not set aside: %v", file, err)
				}
				if _, err := os.Lstat(filepath.Join(b.Dir, file)); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is in the way: %v", file, err)
				}
			}
			if _, err := b.Put(outage.Note{}, outage.Note{Phase: outage.Cut, At: contactAt, Record: outage.Record{}.Encode(), Contact: contactAt}); err != nil {
				t.Error(err)
			}
		})
	}
}

// A record that cannot be decoded is one all the same: there was an outage.
func TestAnUnreadableRecordIsARecord(t *testing.T) {
	b := Notebook{Dir: t.TempDir()}
	must(t, os.WriteFile(filepath.Join(b.Dir, "outage"), []byte("\x00half a rec"), 0o600))
	if noted, onDisk := b.Read(); !noted.Recorded || noted.Record.Holding || onDisk.Phase != outage.Cut {
		t.Errorf("read: %+v, %+v", noted, onDisk)
	}
}

// A contact that names no boot is none, whatever the time of its file.
func TestADamagedContactIsNone(t *testing.T) {
	b := Notebook{Dir: t.TempDir(), Boot: "this boot"}
	must(t, os.WriteFile(filepath.Join(b.Dir, "contact"), []byte("3f2a\x00\x91-"), 0o600))
	if noted, _ := b.Read(); !noted.Contact.IsZero() || noted.Boot != "" {
		t.Errorf("read: %+v", noted)
	}
}

// A note that a disk does not take leaves what is there, and says so.
func TestANoteThatIsNotTaken(t *testing.T) {
	b := Notebook{Dir: filepath.Join(t.TempDir(), "file")}
	must(t, os.WriteFile(b.Dir, nil, 0o600))
	was := outage.Note{Contact: contactAt}
	is, err := b.Put(was, outage.Note{Phase: outage.Cut, At: contactAt, Record: outage.Record{}.Encode(), Contact: contactAt.Add(time.Minute)})
	if !errors.Is(err, unix.ENOTDIR) || is.Phase != outage.Calm || !is.Contact.Equal(contactAt) {
		t.Errorf("on disk is %+v, %v", is, err)
	}
}
