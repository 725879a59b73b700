package source

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
)

// ManifestsFile is the name, in an agent's --state-dir, of what is kept of --manifests.
const ManifestsFile = "manifests"

// MemoryMagic is what that begins with.
const MemoryMagic = "gridmesh manifests 1\n"

const (
	maxMemory      = 64 << 20 // bytes of it, as it is kept
	maxVersions    = 8        // of a file: the first, and the last ones
	memoryEvery    = 500 * time.Millisecond
	memoryPart     = 10          // of the time a write takes goes by before the next one
	memoryPatience = time.Second // with a disk that does not answer
)

// memory keeps what is in force of manifests over a restart: files as they were written, those of
// before, too, of which some is in force because of what is wrong with them now. Who begins reads them
// first, as if it had run all the while. The zero value keeps nothing.
type memory struct {
	path  string
	may   func() bool                              // nobody else keeps anything there
	asked *atomicfile.Asked[remembers]             // what a run before kept; nil once that is known
	write *atomicfile.Asked[struct{}]              // nil for none
	read  func(path, of string) (remembers, error) // of a disk
	due   bool                                     // there is something to be written
	began time.Time                                // the last write
	next  time.Time                                // when it may be
	fault string                                   // why it is not kept, or what was is not known
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
// what is in force there, as long as it may. It is called before Run.
func (d *Dir) Remember(path string, may func() bool) {
	m := &d.memory
	m.path, m.may = path, may
	if m.read == nil {
		m.read = readMemory
	}
	m.asked = atomicfile.Ask(func() (remembers, error) { return m.read(path, d.path) })
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

// recalled takes what a run before kept: each file was that before it was what has been read since.
func (d *Dir) recalled(got atomicfile.Answer[remembers]) {
	m := &d.memory
	if m.asked = nil; got.Err != nil {
		m.fault = "what a run before had of the manifests is not known, and what is wrong with them now is left out: " + got.Err.Error()
	}
	for _, r := range got.Is.Left {
		is := r.replay()
		is.keys, is.waits, is.content = r.Keys, r.Waits, is.content.only(r.Keys)
		d.left = append(d.left, is)
	}
	for _, r := range got.Is.Files {
		i := slices.IndexFunc(d.files, func(f file) bool { return f.name == r.Name })
		if i < 0 {
			d.files = append(d.files, r.replay())
			continue
		}
		r.Versions = append(r.Versions, d.files[i].versions...)
		d.files[i] = r.replay()
	}
}

// replay is a file as whoever saw it change would have it.
func (r remembered) replay() file {
	is := file{name: r.Name, path: r.Path, content: &manifests{}}
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
	all := slices.Concat(older, newer)
	if extra := len(all) - maxVersions; extra > 0 {
		all = slices.Delete(all, 1, 1+extra)
	}
	return all
}

// keep writes what is in force, where that is another than what was written, beside who calls it.
func (d *Dir) keep(now time.Time) {
	m := &d.memory
	if !m.due || m.asked != nil || m.write != nil || now.Before(m.next) || !m.may() {
		return
	}
	m.due = false
	all := remembers{d.path, remember(d.files), remember(d.left)}
	size := 0
	for _, r := range slices.Concat(all.Files, all.Left) {
		for _, v := range r.Versions {
			size += len(v)
		}
	}
	if size > maxMemory {
		m.fault = fmt.Sprintf("what is in force of the manifests is not kept, and after a restart what is wrong by then is left out: compressed it has more than %d MiB; give a directory of what is meant", maxMemory>>20)
		return
	}
	path := m.path
	m.began = now
	m.write = atomicfile.Ask(func() (struct{}, error) { return struct{}{}, writeMemory(path, all) })
}

func remember(files []file) (list []remembered) {
	for _, f := range files {
		if len(f.versions) > 0 {
			list = append(list, remembered{f.name, f.path, f.versions, f.keys, f.waits})
		}
	}
	return list
}

// wrote notes what became of a write.
func (m *memory) wrote(err error, now time.Time) {
	m.write, m.next, m.fault = nil, now.Add(max(memoryEvery, memoryPart*now.Sub(m.began))), ""
	if err != nil {
		m.due = true
		m.fault = "what is in force of the manifests is not kept, and after a restart what is wrong by then is as it was when it was kept last: " + err.Error()
	}
}

// finish writes what is still to be written, as long as the disk takes it.
func (d *Dir) finish() {
	m := &d.memory
	for m.next = (time.Time{}); m.write != nil || m.due; {
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

// packed is a version of a file as it is kept.
func packed(text []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // fails for other levels alone
	_, err := w.Write(text)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil // memory takes all
	}
	return slices.Clip(b.Bytes())
}

func unpacked(version []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(version))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, MaxFile))
}

// writeMemory writes the magic, the SHA-256 of what follows, and that.
func writeMemory(path string, all remembers) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(all); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	sum := sha256.Sum256(b.Bytes())
	return atomicfile.Write(path, slices.Concat([]byte(MemoryMagic), sum[:], b.Bytes()))
}

// readMemory is what was kept of a path; none is no error. What cannot be taken apart is set aside.
func readMemory(path, of string) (remembers, error) {
	data, _, err := atomicfile.Read(path, 2*maxMemory)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return remembers{}, nil
	case err != nil && !errors.Is(err, atomicfile.ErrOdd):
		return remembers{}, fmt.Errorf("read what was kept: %w", err)
	}
	var all remembers
	if err == nil {
		all, err = decodeMemory(data)
	}
	if err != nil {
		aside, rename := atomicfile.SetAside(path)
		if rename != nil {
			return remembers{}, errors.Join(err, rename)
		}
		return remembers{}, fmt.Errorf("%s: %w; it was set aside as %s", path, err, aside)
	}
	if all.Of != of {
		return remembers{}, nil
	}
	return all, nil
}

func decodeMemory(data []byte) (all remembers, err error) {
	rest, is := bytes.CutPrefix(data, []byte(MemoryMagic))
	if !is || len(rest) < sha256.Size {
		return all, errors.New("is not what was kept of manifests")
	}
	sum, rest := rest[:sha256.Size], rest[sha256.Size:]
	if is := sha256.Sum256(rest); !bytes.Equal(is[:], sum) {
		return all, errors.New("is damaged")
	}
	if err := gob.NewDecoder(bytes.NewReader(rest)).Decode(&all); err != nil {
		return remembers{}, fmt.Errorf("cannot be taken apart: %w", err)
	}
	return all, nil
}
