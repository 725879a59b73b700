package source

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// dirPoll is how often a directory is looked at.
const dirPoll = 250 * time.Millisecond

// Dir reads a directory (or one file) of manifests: Services, EndpointSlices,
// Nodes and ServiceCIDRs; other kinds are passed over. What cannot be read is
// a Problem, the rest goes on. Only files that changed are read again.
type Dir struct {
	Snapshots
	path    string
	files   []file // of the snapshot published last, by path
	builder *topology.Builder
	built   counted // what the builder holds
}

// file is a file of manifests as it was read last.
type file struct {
	path    string
	version string // differs when the file does
	content *manifests
}

// counted are the objects that count where several files have the same one: the
// last, by the files' paths.
type counted struct {
	services map[topology.ObjectKey]*topology.Service
	slices   map[topology.ObjectKey]*topology.Slice
	nodes    map[string]*topology.Node
}

// NewDir reads path on Run.
func NewDir(path string) *Dir { return &Dir{path: path, builder: topology.NewBuilder()} }

// Run publishes the directory's state and follows its changes until ctx ends.
func (d *Dir) Run(ctx context.Context) error {
	tick := time.NewTicker(dirPoll)
	defer tick.Stop()
	for {
		if err := d.refresh(); err != nil {
			if _, ok := d.Get(); !ok {
				return err
			}
			// Gone for a moment: the last good state stays.
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// refresh publishes a snapshot if any file changed.
func (d *Dir) refresh() error {
	files, err := list(d.path)
	if err != nil {
		return err
	}
	changed, err := d.read(files)
	if err != nil {
		return err
	}
	d.Contacted(time.Now())
	if _, ok := d.Get(); changed || !ok {
		d.Publish(d.build())
	}
	return nil
}

// read fills in the files' contents and keeps them, and reports whether any of
// them differs from what was kept before.
func (d *Dir) read(files []file) (changed bool, err error) {
	before := make(map[string]file, len(d.files))
	for _, f := range d.files {
		before[f.path] = f
	}
	changed = len(files) != len(d.files)
	for i := range files {
		f := &files[i]
		if old, had := before[f.path]; had && old.version == f.version {
			f.content = old.content
			continue
		}
		changed = true
		f.content = &manifests{}
		if err := f.content.file(f.path); err != nil {
			return false, err
		}
	}
	d.files = files
	return changed, nil
}

// build makes the snapshot of the files kept; what did not change is shared
// with the one before.
func (d *Dir) build() *topology.Snapshot {
	next := counted{map[topology.ObjectKey]*topology.Service{}, map[topology.ObjectKey]*topology.Slice{}, map[string]*topology.Node{}}
	var cidrs []netip.Prefix
	var problems []topology.Problem
	for _, f := range d.files {
		for _, s := range f.content.services {
			next.services[s.Key] = s
		}
		for _, s := range f.content.slices {
			next.slices[s.Key] = s
		}
		for _, n := range f.content.nodes {
			next.nodes[n.Name] = n
		}
		cidrs = append(cidrs, f.content.cidrs...)
		problems = append(problems, f.content.problems...)
	}
	replace(d.built.services, next.services, d.builder.SetService, d.builder.DeleteService)
	replace(d.built.slices, next.slices, d.builder.SetSlice, d.builder.DeleteSlice)
	replace(d.built.nodes, next.nodes, d.builder.SetNode, d.builder.DeleteNode)
	d.built = next
	d.builder.SetServiceCIDRs(cidrs)
	d.builder.SetProblems(problems)
	return d.builder.Build()
}

// replace leads a builder from what it was given to what it should hold.
// Objects are the same where their file did not change.
func replace[K comparable, V comparable](was, is map[K]V, set func(V) bool, remove func(K) bool) {
	for k := range was {
		if _, still := is[k]; !still {
			remove(k)
		}
	}
	for k, v := range is {
		if was[k] != v {
			set(v)
		}
	}
}

// ReadDir reads a directory once.
func ReadDir(path string) (*topology.Snapshot, error) {
	files, err := list(path)
	if err != nil {
		return nil, err
	}
	d := NewDir(path)
	if _, err := d.read(files); err != nil {
		return nil, err
	}
	return d.build(), nil
}

// ReadObjects reads a directory or file of manifests of any kind, as the
// unstructured objects of a dynamic client: numbers are int64 or float64.
func ReadObjects(path string) ([]map[string]any, []topology.Problem, error) {
	files, err := list(path)
	if err != nil {
		return nil, nil, err
	}
	var found []map[string]any
	m := &manifests{objects: &found}
	for _, f := range files {
		if err := m.file(f.path); err != nil {
			return nil, nil, err
		}
	}
	return found, m.problems, nil
}

// list returns the manifests under path, by path, unread.
func list(path string) (files []file, err error) {
	path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	err = filepath.WalkDir(path, func(p string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ext := filepath.Ext(p); e.IsDir() || p != path && ext != ".yaml" && ext != ".yml" && ext != ".json" {
			return nil
		}
		info, err := os.Stat(p) // of what a link leads to, as a mounted ConfigMap's do
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if !info.IsDir() {
			files = append(files, file{path: p, version: version(info)})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	return files, nil
}

// version differs when the content of a file may: a file put in its place has
// another inode, and no clock or tool sets back the time of the last change.
func version(info os.FileInfo) string {
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprint(info.Size(), st.Dev, st.Ino, st.Mtim.Nano(), st.Ctim.Nano())
}
