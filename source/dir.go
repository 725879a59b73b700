package source

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// dirPoll is how often a directory is looked at.
const dirPoll = 250 * time.Millisecond

// Dir reads a directory (or one file) of manifests: Services, EndpointSlices,
// Nodes and ServiceCIDRs; other kinds are passed over. What cannot be read is
// a Problem, the rest goes on: of a file, or all of them, that cannot be read
// any more, or taken apart, what was read last stays. Only files that changed, or
// may have, are read again.
type Dir struct {
	Snapshots
	// Awaits goes on where the path cannot be read at first, which else is an error of Run.
	Awaits  bool
	path    string
	files   []file // of the snapshot published last, by path
	left    []file // what lingers of others
	base    looked // of the last look that found anything: what stays is of that
	begun   time.Time
	seen    bool      // it could be read once
	moving  time.Time // since when no look of it is the same as the next; zero where one was
	away    string    // why the directory cannot be read; "" where it can
	builder *topology.Builder
	built   counted // what the builder holds
	pods    atomic.Pointer[podRanges]
	unread  atomic.Pointer[error] // of the last look; nil before the first
	memory  memory
	unkept  string // why the memory has a fault, as published last
}

// file is a file of manifests as it was read last.
type file struct {
	name    string // below what is followed; "." for that itself, where it is a file
	path    string
	is      string // which of the disk it is, wherever links lead
	gone    bool   // it was listed, and not there when it was read
	version string // differs when the file does; "": nobody knows
	sum     string // of what was read
	content *manifests
	fault   string            // why it cannot be read; the content is of before, or nothing
	torn    *topology.Problem // why it cannot be taken apart; the content is of before
	folder  bool              // it is none, but a folder that cannot be read
	asked   string            // the path that was given, where that is this file
	blank   bool              // it was read, and has no document
	empty   bool              // nor any byte
	text    []byte            // what it holds: where that was given, or while it is read
	given   bool
	same    bool // as it was before
	new     bool // it was not there before
	stays   bool // it is of a folder that cannot be read
	// Of what lingers: which objects, and the files that are torn, or wrong, in which they may be.
	lingers     bool
	keys, waits []string
	// versions are those in force, compressed, from the oldest on: one, but for what is wrong with
	// the newest. None where nobody remembers.
	versions [][]byte
}

// counted are the objects that count where several files have the same one: the
// last, by the files' paths.
type counted struct {
	services byName[topology.ObjectKey, *topology.Service]
	slices   byName[topology.ObjectKey, *topology.Slice]
	nodes    byName[string, *topology.Node]
}

// NewDir reads path on Run.
func NewDir(path string) *Dir { return &Dir{path: path, builder: topology.NewBuilder()} }

// PodCIDRs are the ranges of a node's pods, by what was published last or is about to be;
// nil where they are not known. Anybody may ask.
func (d *Dir) PodCIDRs(node string) []netip.Prefix {
	if pods := d.pods.Load(); pods != nil {
		return (*pods)[node]
	}
	return nil
}

// Run publishes the directory's state and follows its changes until ctx ends.
func (d *Dir) Run(ctx context.Context) error {
	tick := time.NewTicker(dirPoll)
	defer tick.Stop()
	d.begun = time.Now()
	for d.recall(); ; {
		err := d.refresh()
		if err != nil && !d.Awaits && !errors.Is(err, errMoving) {
			return err
		}
		d.unread.Store(&err)
		d.keep(time.Now())
		d.forgive()
		select {
		case <-tick.C:
		case got := <-d.memory.asked.Late():
			d.recalled(got)
		case got := <-d.memory.write.Late():
			d.memory.wrote(got.Err, time.Now())
		case <-ctx.Done():
			d.finish()
			return nil
		}
	}
}

// Usable reports whether the directory could ever be read, and why not. What is wrong with
// it later is a Problem. Anybody may ask.
func (d *Dir) Usable() (ever bool, fault error) {
	if err := d.unread.Load(); err != nil {
		fault = *err
	}
	_, ever = d.Get()
	return ever, fault
}

// refresh publishes a snapshot if anything changed. A directory that cannot be
// read is an error at first; later what was read last stays, with a Problem.
func (d *Dir) refresh() error {
	_, again := d.Get()
	now, err := d.look()
	if !errors.Is(err, errMoving) {
		d.moving = time.Time{}
	}
	switch {
	case errors.Is(err, errMoving) && !d.movesOn(time.Now()):
		return nil // somebody is about it: the next look tells
	case errors.Is(err, errMoving) && !again:
		return err // and no state of it was seen
	case err != nil && !again && !d.seen:
		return err
	}
	away, changed := "", false
	if err != nil {
		away = err.Error()
	} else {
		d.seen, changed = true, d.take(now)
		d.memory.due = d.memory.due || d.memory.path != "" && changed && len(now.files) > 0
		d.Contacted(time.Now())
	}
	if !again && d.waits() {
		return nil
	}
	if unkept := d.memory.told(); changed || !again || away != d.away || unkept != d.unkept {
		d.away, d.unkept = away, unkept
		d.Publish(d.build())
	}
	return nil
}

// take keeps what was read, and reports whether anything differs from what was kept before.
func (d *Dir) take(now looked) (changed bool) {
	changed = !unchanged(now.files, d.files)
	if d.files, d.left = now.files, now.left; len(now.files) > 0 { // else somebody is about to mount it, or to copy it
		d.base = now
	}
	return changed
}

// unchanged reports whether files are those of before, each as it was.
func unchanged(files, before []file) bool {
	return len(files) == len(before) && !slices.ContainsFunc(files, func(f file) bool { return !f.same })
}

// looked is what was found in a look: files, and what lingers of those of before.
type looked struct{ files, left []file }

// read fills in the files' contents, with what stays of those of before.
func (d *Dir) read(files []file) looked {
	before := make(map[string]file, len(d.base.files)) // by name: the path may be a link to another place by now
	for _, f := range d.base.files {
		before[f.name] = f
	}
	files = kept(files, d.base.files)
	for i := range files {
		f := &files[i]
		old, had := before[f.name]
		if had && f.version != "" && f.version == old.version {
			f.content, f.sum, f.torn, f.versions, f.same = old.content, old.sum, old.torn, old.versions, true
			continue
		}
		f.read()
		if d.memory.path != "" && len(f.text) > 0 {
			f.versions = [][]byte{packed(f.text)}
		}
		if had {
			f.stay(old)
		}
		if f.empty && f.fault == "" && f.torn == nil { // a power cut leaves one, too
			f.content.torn("file "+f.path, "", "is empty; write what it is to have, or remove it")
		}
		f.same = had && f.path == old.path && f.fault == old.fault && (f.fault != "" || f.sum == old.sum)
		if f.same {
			f.content, f.torn, f.versions = old.content, old.torn, old.versions
		}
		f.new = !had
	}
	left := d.lingering(files)
	for i := range files {
		if f := &files[i]; !f.given {
			f.text = nil
		}
	}
	return looked{files, left}
}

// read reads a file whatever was known of it. One that cannot be read is tried
// again the next time.
func (f *file) read() {
	f.content = &manifests{}
	if f.fault == "" {
		if err := f.content.file(f); err != nil {
			f.fault = err.Error()
		}
	}
	if f.fault != "" { // so nothing of it was ever whole, unless it was before
		f.version, f.content.broken = "", &topology.Problem{}
	}
}

// kept replaces folders that cannot be read by the files that they had.
func kept(files, before []file) []file {
	var all []file
	for _, f := range files {
		all = append(all, f)
		for _, old := range before {
			if f.folder && old.below(f.name) {
				old.fault, old.version, old.stays = f.fault, "", true
				all = append(all, old)
			}
		}
	}
	return all
}

func (f file) below(folder string) bool {
	return strings.HasPrefix(f.name, folder+string(filepath.Separator))
}

// build makes the snapshot of the files kept; what did not change is shared
// with the one before.
func (d *Dir) build() *topology.Snapshot {
	next := counted{byName[topology.ObjectKey, *topology.Service]{}, byName[topology.ObjectKey, *topology.Slice]{}, byName[string, *topology.Node]{}}
	var cidrs []netip.Prefix
	var problems, ofFiles []topology.Problem // those of whole files come first: lists may be cut
	var doubts doubts
	var leftOut []origin
	as, live, pods := asWritten{}, liveNodes{}, podRanges{}
	before, outdone := d.outdone(&leftOut, &problems)
	for _, f := range d.inOrder() {
		leftOut = append(leftOut, f.content.leftOut...)
		for _, s := range f.content.services {
			if outdone(f, s.origin, s.is.Problems) {
				continue
			}
			over, refused := as.over(s)
			next.services.put(s.is.Key, over, &doubts)
			problems = append(problems, refused...)
		}
		for _, s := range f.content.slices {
			if outdone(f, s.origin, s.is.Problems) {
				continue
			}
			next.slices.put(s.is.Key, s, &doubts)
		}
		for _, n := range f.content.nodes {
			if outdone(f, n.origin, nil) {
				continue
			}
			next.nodes.put(n.is.Name, live.over(n.placed), &doubts)
			pods.over(n)
		}
		for _, c := range f.content.cidrs {
			cidrs = append(cidrs, c.is...)
		}
		problems = append(problems, f.content.told(before)...)
		if f.fault != "" {
			ofFiles = append(ofFiles, unreadable(f.path, f.fault))
		}
		if f.torn != nil {
			ofFiles = append(ofFiles, *f.torn)
		}
	}
	if d.away != "" {
		ofFiles = append(ofFiles, unreadable(d.path, d.away))
	}
	if d.unkept != "" {
		ofFiles = append(ofFiles, topology.Problem{Object: "file " + d.memory.path, Text: d.unkept})
	}
	next.orphans(leftOut, &doubts)
	next.beside(leftOut, &doubts)
	next.outside(cidrs, &doubts)
	d.built.services.lead(next.services, d.builder.SetService, d.builder.DeleteService)
	d.built.slices.lead(next.slices, d.builder.SetSlice, d.builder.DeleteSlice)
	d.built.nodes.lead(next.nodes, d.builder.SetNode, d.builder.DeleteNode)
	d.built = next
	d.pods.Store(&pods)
	d.builder.SetServiceCIDRs(cidrs)
	d.builder.SetProblems(slices.Concat(ofFiles, problems, doubts.all()))
	return d.builder.Build()
}

// unreadable is a file or directory that the system does not let us read.
func unreadable(path, why string) topology.Problem {
	return topology.Problem{Object: "file " + path, Text: "cannot be read; what was read of it last, if anything, stays: " + why, Loss: topology.LostNewer}
}
