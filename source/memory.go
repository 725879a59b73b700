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
	memoryEvery    = 5 * time.Second
	memoryPatience = time.Second // with a disk that does not answer
)

// memory keeps what is in force of manifests over a restart: files as they were written, those of
// before, too, of which some is in force because of what is wrong with them now. Who begins reads them
// first, as if it had run all the while. The zero value keeps nothing.
type memory struct {
	path  string
	may   func() bool                                 // nobody else keeps anything there
	asked *atomicfile.Asked[[]remembered]             // what a run before kept; nil once that is known
	write *atomicfile.Asked[struct{}]                 // nil for none
	read  func(path, of string) ([]remembered, error) // of a disk
	due   bool                                        // there is something to be written
	next  time.Time                                   // when it may be
	fault string                                      // why it is not kept, or what was is not known
}

// remembered is a file: its versions from the oldest to the newest, compressed, of which each is in
// force as far as the next one has something wrong.
type remembered struct {
	Name, Path string
	Versions   [][]byte
}

// remembers is all that is kept.
type remembers struct {
	Of    string // the path that was given
	Files []remembered
}

// Remember has Run begin with what a run before kept at path, if that is of the same directory, and keep
// what is in force there, as long as it may. It is called before Run.
func (d *Dir) Remember(path string, may func() bool) {
	m := &d.memory
	m.path, m.may = path, may
	if m.read == nil {
		m.read = readMemory
	}
	m.asked = atomicfile.Ask(func() ([]remembered, error) { return m.read(path, d.path) })
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
func (d *Dir) recalled(got atomicfile.Answer[[]remembered]) {
	m := &d.memory
	if m.asked = nil; got.Err != nil {
		m.fault = "what a run before had of the manifests is not known, and what is wrong with them now is left out: " + got.Err.Error()
	}
	for _, r := range got.Is {
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
	all, size := remembers{Of: d.path}, 0
	for _, f := range d.files {
		for _, v := range f.versions {
			size += len(v)
		}
		if len(f.versions) > 0 {
			all.Files = append(all.Files, remembered{f.name, f.path, f.versions})
		}
	}
	if size > maxMemory {
		m.fault = fmt.Sprintf("what is in force of the manifests is not kept, and after a restart what is wrong by then is left out: compressed it has more than %d MiB; give a directory of what is meant", maxMemory>>20)
		return
	}
	path := m.path
	m.write = atomicfile.Ask(func() (struct{}, error) { return struct{}{}, writeMemory(path, all) })
}

// wrote notes what became of a write.
func (m *memory) wrote(err error, now time.Time) {
	m.write, m.next, m.fault = nil, now.Add(memoryEvery), ""
	if err != nil {
		m.due = true
		m.fault = "what is in force of the manifests is not kept, and after a restart what is wrong by then is left out: " + err.Error()
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
func readMemory(path, of string) ([]remembered, error) {
	data, _, err := atomicfile.Read(path, 2*maxMemory)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil && !errors.Is(err, atomicfile.ErrOdd):
		return nil, fmt.Errorf("read what was kept: %w", err)
	}
	var all remembers
	if err == nil {
		all, err = decodeMemory(data)
	}
	if err != nil {
		aside, rename := atomicfile.SetAside(path)
		if rename != nil {
			return nil, errors.Join(err, rename)
		}
		return nil, fmt.Errorf("%s: %w; it was set aside as %s", path, err, aside)
	}
	if all.Of != of {
		return nil, nil
	}
	return all.Files, nil
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
