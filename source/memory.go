package source

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/quiet"
	"github.com/gridmesh/gridmesh/topology"
)

// ManifestsFile is the name, in an agent's --state-dir, of what is kept of --manifests.
const ManifestsFile = "manifests"

// MemoryMagic is what that begins with.
const MemoryMagic = "gridmesh manifests 1\n"

const (
	maxMemory      = 64 << 20 // bytes of it, as it is kept
	maxVersions    = 32       // of a file: the first, and the last ones
	memoryEvery    = 500 * time.Millisecond
	memoryPart     = 10               // of the time a write takes goes by before the next one
	memorySoon     = 20               // writes may come as soon
	memoryLasting  = 5 * time.Second  // and where edits go on and on one each time
	memoryPatience = time.Second      // with a disk that does not answer
	memorySlow     = 10 * time.Second // a write may take
	memoryLate     = time.Minute      // where something is wrong
	memoryGiveUp   = 10 * time.Minute // with one that cannot be read
)

// memory keeps what is in force of manifests over a restart: files as they were written, those of
// before, too, of which some is in force because of what is wrong with them now. Who begins reads them
// first, as if it had run all the while. The zero value keeps nothing.
type memory struct {
	path  string
	may   func() bool                              // nobody else keeps anything there
	took  func(error)                              // told what became of a write, and of one that takes long
	asked *atomicfile.Asked[remembers]             // what a run before kept; nil once that is known
	write *atomicfile.Asked[struct{}]              // nil for none
	read  func(path, of string) (remembers, error) // of a disk
	due   bool                                     // there is something to be written
	began time.Time                                // the last write
	next  time.Time                                // when it may be
	fault string                                   // why it is not kept
	large bool                                     // for it is too large
	limit quiet.Limit
	lost  string    // why it is not known what was
	since time.Time // when that could not be read first; zero: it could
	again time.Time // when it is tried again
}

// remembered is a file: its versions from the oldest to the newest, compressed, of which each is in
// force as far as the next one has something wrong.
type remembered struct {
	Name, Path string
	Versions   [][]byte
	// Of what lingers, which objects, and the torn files that they may be in.
	Keys, Waits []string
}

// remembers is all that is kept.
type remembers struct {
	Of    string // the path that was given
	Files []remembered
	Left  []remembered // what lingers of files that have it no more
}

// Remember has Run begin with what a run before kept at path, if that is of the same directory, and keep
// what is in force there, as long as it may; took is told what became of that: nil where it is kept. It is called
// before Run.
func (d *Dir) Remember(path string, may func() bool, took func(error)) {
	m := &d.memory
	m.path, m.may, m.took = path, may, took
	if m.read == nil {
		m.read = readMemory
	}
	d.ask()
}

// ask begins to read what a run before kept.
func (d *Dir) ask() {
	path, of, read := d.memory.path, d.spelt(), d.memory.read
	d.memory.asked = atomicfile.Ask(func() (remembers, error) { return read(path, of) })
}

// spelt is the directory, however it was written. What links lead to it may be another one each time.
func (d *Dir) spelt() string {
	if abs, err := filepath.Abs(d.path); err == nil {
		return abs
	}
	return d.path
}

// recall waits a little for what a run before kept.
func (d *Dir) recall() {
	if d.memory.asked == nil {
		return
	}
	if got, ok := d.memory.asked.Within(memoryPatience); ok {
		d.recalled(got)
	}
}

// notKnown is what is said where a disk does not tell what there was.
const notKnown = "what a run before had of the manifests is not known, and what is wrong with them now is left out: "

// recalled takes what a run before kept: each file was that before it was what has been read since.
func (d *Dir) recalled(got atomicfile.Answer[remembers]) {
	m := &d.memory
	if m.asked, m.lost = nil, ""; got.Err != nil {
		m.lost = notKnown + got.Err.Error()
		m.tryAgain(got.Err, time.Now())
		return
	}
	m.took(nil)
	m.since = time.Time{}
	for _, r := range got.Is.Left {
		is := r.replay()
		is.lingers, is.keys, is.waits, is.content = true, r.Keys, r.Waits, is.content.only(r.Keys)
		d.base.left = append(d.base.left, is)
	}
	since := make(map[string]file, len(d.base.files))
	for _, f := range d.base.files {
		since[f.name] = f
	}
	files := d.base.files[:0:0]
	for _, r := range got.Is.Files {
		if f, read := since[r.Name]; read {
			r.Versions = append(r.Versions, f.versions...)
			delete(since, r.Name)
		}
		files = append(files, r.replay())
	}
	for _, f := range d.base.files {
		if _, unknown := since[f.name]; unknown && f.content.broken == nil { // what is torn may have come as others went
			files = append(files, f)
		}
	}
	d.base.files, d.files = files, nil // and the next look is another one
}

// errNotRead is what may be good, and could not be read this time.
var errNotRead = errors.New("read what was kept")

// tryAgain has what could not be read asked for again, for a while, in which nothing is written over it.
func (m *memory) tryAgain(err error, now time.Time) {
	if !errors.Is(err, errNotRead) {
		m.since = time.Time{}
		return
	}
	m.took(err)
	if m.since.IsZero() {
		m.since = now
	}
	m.again = now.Add(time.Second)
}

// unread reports whether what a run before kept may still come.
func (m *memory) unread(now time.Time) bool {
	return m.asked != nil || !m.since.IsZero() && now.Sub(m.since) < memoryGiveUp
}

// told is what is to be said of it; "" for nothing.
func (m *memory) told() string {
	if m.lost != "" && m.fault != "" {
		return m.lost + "; " + m.fault
	}
	return m.lost + m.fault
}

// forgive has it told no more that what a run before had is not known, once that is of no account: nothing is wrong,
// and what is in force is kept.
func (d *Dir) forgive() {
	if m := &d.memory; m.lost != "" && m.fault == "" && !m.due && m.write == nil && !m.unread(time.Now()) && !slices.ContainsFunc(d.files, file.wrong) {
		m.lost = ""
	}
}

// wrong reports whether something of a file is not in force.
func (f file) wrong() bool {
	return f.fault != "" || f.torn != nil || f.content.broken != nil || len(f.content.refused)+len(f.content.leftOut) > 0
}

// waits reports whether nothing is said yet, for something is wrong, and what was there before may still come.
func (d *Dir) waits() bool {
	now := time.Now()
	return d.memory.unread(now) && now.Sub(d.begun) < memoryLate && slices.ContainsFunc(d.files, file.wrong)
}

// replay is a file as whoever saw it change would have it.
func (r remembered) replay() file {
	is := file{name: r.Name, path: r.Path, content: &manifests{}}
	if len(r.Versions) == 0 { // nothing of it was ever whole
		is.content.broken = &topology.Problem{}
	}
	for i, version := range r.Versions {
		text, err := unpacked(version)
		if err != nil {
			continue // it was whole as it was written; the others are
		}
		now := file{name: r.Name, path: r.Path, text: text, given: true, versions: [][]byte{version}}
		if now.read(); i > 0 {
			now.stay(is)
		}
		is = now
	}
	is.text, is.given = nil, false
	return is
}

// chain is versions of which some is in force beside one that is newer.
func chain(older, newer [][]byte) [][]byte {
	all := slices.CompactFunc(slices.Concat(older, newer), bytes.Equal)
	if extra := len(all) - maxVersions; extra > 0 {
		all = slices.Delete(all, 1, 1+extra)
	}
	return all
}

var errTooLarge = fmt.Errorf("compressed it has more than %d MiB; give a directory of what is meant", maxMemory>>20)

// keep writes what is in force, where that is another than what was written, beside who calls it.
func (d *Dir) keep(now time.Time) {
	m := &d.memory
	if m.asked == nil && m.unread(now) && !now.Before(m.again) {
		d.ask()
	}
	m.slow(d.begun, now)
	if !m.due || m.unread(now) || m.write != nil || now.Before(m.next) || !m.may() || !m.limit.Allow(now, memorySoon, memoryLasting) {
		return
	}
	m.due, m.began = false, now
	all := remembers{d.spelt(), remember(d.base.files), remember(d.base.left)}
	if all.size() > maxMemory {
		all.shorten()
	}
	path := m.path
	put := func() error { return writeMemory(path, all) }
	if m.large = all.size() > maxMemory; m.large {
		m.fault = "what is in force of the manifests is not kept, and after a restart what is wrong by then is left out: " + errTooLarge.Error()
		put = func() error { return os.RemoveAll(path) } // what was is not what is
	}
	m.write = atomicfile.Ask(func() (struct{}, error) { return struct{}{}, put() })
}

func (all *remembers) size() (n int) {
	for _, r := range slices.Concat(all.Files, all.Left) {
		for _, v := range r.Versions {
			n += len(v)
		}
	}
	return n
}

// shorten keeps of each file the first version and the newest.
func (all *remembers) shorten() {
	for _, list := range [][]remembered{all.Files, all.Left} {
		for i, r := range list {
			if n := len(r.Versions); n > 2 {
				list[i].Versions = [][]byte{r.Versions[0], r.Versions[n-1]}
			}
		}
	}
}

func remember(files []file) (list []remembered) {
	for _, f := range files {
		list = append(list, remembered{f.name, f.path, f.versions, f.keys, f.waits})
	}
	return list
}

// notKept is what is said where the memory takes nothing.
const notKept = "what is in force of the manifests is not kept, and after a restart what is wrong by then is as it was when it was kept last: "

// wrote notes what became of a write.
func (m *memory) wrote(err error, now time.Time) {
	if m.write, m.next = nil, now.Add(max(memoryEvery, memoryPart*now.Sub(m.began))); m.large && err == nil {
		m.took(errTooLarge)
		return
	}
	m.took(err)
	if m.fault = ""; err != nil {
		m.due = true
		m.fault = notKept + err.Error()
	}
}

// slow tells of a write that takes long, and of the first read: the disk may hang, and never say so.
func (m *memory) slow(begun, now time.Time) {
	if m.asked != nil && m.lost == "" && now.Sub(begun) > memorySlow {
		m.took(atomicfile.ErrLate)
		m.lost = notKnown + atomicfile.ErrLate.Error()
	}
	if m.write != nil && m.fault == "" && now.Sub(m.began) > memorySlow {
		m.took(atomicfile.ErrLate)
		m.fault = notKept + atomicfile.ErrLate.Error()
	}
}

// finish writes what is still to be written, as long as the disk takes it.
func (d *Dir) finish() {
	m := &d.memory
	for m.next, m.limit = (time.Time{}), (quiet.Limit{}); m.write != nil || m.due; {
		if d.keep(time.Now()); m.write == nil {
			return
		}
		got, ok := m.write.Within(memoryPatience)
		if !ok || got.Err != nil {
			return
		}
		m.write = nil
	}
}
