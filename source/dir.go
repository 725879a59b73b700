package source

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
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
	away    string // why the directory cannot be read; "" where it can
	builder *topology.Builder
	built   counted // what the builder holds
	pods    atomic.Pointer[podRanges]
	unread  atomic.Pointer[error] // of the last look; nil before the first
}

// file is a file of manifests as it was read last.
type file struct {
	name    string // below what is followed; "." for that itself, where it is a file
	path    string
	version string // differs when the file does; "": nobody knows
	sum     string // of what was read
	content *manifests
	fault   string            // why it cannot be read; the content is of before, or nothing
	torn    *topology.Problem // why it cannot be taken apart; the content is of before
	folder  bool              // it is none, but a folder that cannot be read
	asked   string            // the path that was given, where that is this file
	blank   bool              // it was read, and has no document
	empty   bool              // nor any byte
	text    []byte            // what it holds, where that was given
	given   bool
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
	for {
		err := d.refresh()
		if err != nil && !d.Awaits {
			return err
		}
		d.unread.Store(&err)
		select {
		case <-tick.C:
		case <-ctx.Done():
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
	files, err := list(d.path)
	if err != nil && !again {
		return err
	}
	away, changed := "", false
	if err != nil {
		away = err.Error()
	} else {
		changed = d.read(files)
		d.Contacted(time.Now())
	}
	if changed || !again || away != d.away {
		d.away = away
		d.Publish(d.build())
	}
	return nil
}

// read fills in the files' contents and keeps them, and reports whether any of
// them differs from what was kept before.
func (d *Dir) read(files []file) (changed bool) {
	before := make(map[string]file, len(d.files)) // by name: the path may be a link to another place by now
	for _, f := range d.files {
		before[f.name] = f
	}
	files = kept(files, d.files)
	changed = len(files) != len(d.files)
	for i := range files {
		f := &files[i]
		old, had := before[f.name]
		if had && f.version != "" && f.version == old.version {
			f.content, f.sum, f.torn = old.content, old.sum, old.torn
			continue
		}
		if f.read(); had {
			f.stay(old)
		}
		if f.empty && f.torn == nil { // a power cut leaves one, too
			f.content.lost(topology.LostAll, "file "+f.path, "", "is empty; write what it is to have, or remove it")
		}
		same := had && f.path == old.path && f.fault == old.fault && (f.fault != "" || f.sum == old.sum)
		if same {
			f.content, f.torn = old.content, old.torn
		}
		changed = changed || !same
	}
	d.files = files
	return changed
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
			if f.folder && strings.HasPrefix(old.name, f.name+string(filepath.Separator)) {
				old.fault, old.version = f.fault, ""
				all = append(all, old)
			}
		}
	}
	return all
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
	for _, f := range d.files {
		leftOut = append(leftOut, f.content.leftOut...)
		for _, s := range f.content.services {
			over, refused := as.over(s)
			next.services.put(s.is.Key, over, &doubts)
			problems = append(problems, refused...)
		}
		for _, s := range f.content.slices {
			next.slices.put(s.is.Key, s, &doubts)
		}
		for _, n := range f.content.nodes {
			next.nodes.put(n.is.Name, live.over(n.placed), &doubts)
			pods.over(n)
		}
		for _, c := range f.content.cidrs {
			cidrs = append(cidrs, c.is...)
		}
		problems = append(problems, f.content.problems...)
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

// noFile is why a pipe or a device is not read: it has no end, or waits for who writes.
const noFile = "it is no file"

// list returns the manifests under path, by path, unread.
func list(path string) (files []file, err error) {
	top, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", withPath(path, err))
	}
	if info, err := os.Stat(top); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read manifests: %s is neither a file nor a directory (its mode is %s); give one of these", path, info.Mode())
	}
	var bytes int64
	err = filepath.WalkDir(top, func(p string, e os.DirEntry, err error) error {
		if err != nil && p == top {
			return err
		}
		if err != nil {
			files = append(files, file{name: below(top, p), path: p, fault: err.Error(), folder: true})
			return nil //nolint:nilerr // the others go on
		}
		if e.IsDir() && p != top && strings.HasPrefix(e.Name(), ".") { // as .git, and what a mounted ConfigMap's links lead to
			return filepath.SkipDir
		}
		if e.IsDir() || p != top && !isManifest(p) {
			return nil
		}
		f, size, there := look(p)
		if there {
			f.name = below(top, p)
			if p == top {
				f.asked = path
			}
			files = append(files, f)
		}
		if bytes += size; bytes > MaxDir {
			return fmt.Errorf("%s has more than %d bytes of manifests; give a directory of what is meant", path, MaxDir)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	return files, nil
}

// below is a path below another, "." for that itself.
func below(top, path string) string {
	name, err := filepath.Rel(top, path)
	if err != nil {
		return path
	}
	return name
}

// withPath has an error of EvalSymlinks name the path, which some do not.
func withPath(path string, err error) error {
	if named := (*os.PathError)(nil); errors.As(err, &named) {
		return err
	}
	return fmt.Errorf("%s: %s", path, strings.TrimPrefix(err.Error(), "EvalSymlinks: "))
}

// look says what is at a path, how many bytes of it will be read, and whether it is
// one to read.
func look(p string) (f file, size int64, there bool) {
	f = file{path: p}
	info, err := os.Stat(p) // of what a link leads to, as a mounted ConfigMap's do
	switch {
	case errors.Is(err, os.ErrNotExist):
		return f, 0, false // since the folder was read
	case err != nil:
		f.fault = err.Error()
	case info.IsDir():
		return f, 0, false
	case !info.Mode().IsRegular():
		f.fault = noFile
	default:
		f.version = version(info, time.Now())
		if size = info.Size(); size > MaxFile { // it is left out
			size = 0
		}
	}
	return f, size, true
}

// settled is how long a file must have been as it is: of two writes within a tick of
// the clock that gives files their times, 10 ms at most, those of the second are the
// first's.
const settled = 100 * time.Millisecond

// version differs when the content of a file may: a file put in its place has
// another inode, and no clock or tool sets back the time of the last change. Of one
// that was changed a moment ago nobody knows.
func version(info os.FileInfo, now time.Time) string {
	st := info.Sys().(*syscall.Stat_t)
	if now.Sub(time.Unix(st.Ctim.Unix())).Abs() < settled {
		return ""
	}
	return fmt.Sprint(info.Size(), st.Dev, st.Ino, st.Mtim.Nano(), st.Ctim.Nano())
}
