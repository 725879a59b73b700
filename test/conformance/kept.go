package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/conformance/score"
)

// kept is what specs came to with one proxy, on the disk as each of them ends:
// a run that was ended, or whose machine was, goes on where it stopped.
type kept struct {
	dir      string
	programs string // the sum of what was tested

	mu   sync.Mutex
	list map[string]score.Outcome // by spec
}

// outcomesFile is its form on the disk.
type outcomesFile struct {
	Programs string          `json:"programs"`
	Outcomes []score.Outcome `json:"outcomes"`
}

// errOtherPrograms keeps two versions out of one column of the table.
var errOtherPrograms = errors.New("its outcomes are of other programs than those of bin/ and deploy/: run it from the start")

// keep begins anew in a directory or, to resume, with what is there.
func keep(dir, programs string, resume bool) (*kept, error) {
	k := &kept{dir: dir, programs: programs, list: map[string]score.Outcome{}}
	if !resume {
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(k.logs(), 0o755); err != nil {
		return nil, err
	}
	file, err := readOutcomes(dir)
	if err != nil {
		return nil, err
	}
	if file == nil {
		return k, k.write()
	}
	if file.Programs != programs {
		return nil, fmt.Errorf("resume %s: %w", dir, errOtherPrograms)
	}
	for _, o := range file.Outcomes {
		k.list[o.Spec] = o
	}
	return k, nil
}

// logs is where each spec's process writes.
func (k *kept) logs() string { return filepath.Join(k.dir, "specs") }

// left are those of specs that were not judged yet.
func (k *kept) left(specs []string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(specs), func(spec string) bool {
		o, there := k.list[spec]
		return there && o.State != score.Absent
	})
}

// add keeps what a spec came to.
func (k *kept) add(o score.Outcome) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list[o.Spec] = o
	return k.write()
}

func (k *kept) write() error {
	file := outcomesFile{Programs: k.programs, Outcomes: []score.Outcome{}}
	for _, spec := range slices.Sorted(maps.Keys(k.list)) {
		file.Outcomes = append(file.Outcomes, k.list[spec])
	}
	data, err := json.MarshalIndent(file, "", " ")
	if err != nil {
		return err
	}
	return atomicfile.WriteShared(filepath.Join(k.dir, "outcomes.json"), data)
}

// readOutcomes reads what a run kept; nil where there was none.
func readOutcomes(dir string) (*outcomesFile, error) {
	path := filepath.Join(dir, "outcomes.json")
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var file outcomesFile
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("read %s: %w (run it from the start)", path, err)
	}
	return &file, nil
}

// tested are the files in bin/ that a proxy's outcomes are about.
func tested(proxy string, with beside) []string {
	list := []string{"kube", "e2e.test", "agnhost"}
	if with != "" {
		list = append(list, string(with))
	}
	if strings.HasPrefix(proxy, ours) {
		list = append(list, "envoy", "gridmesh-agent", "gridmesh-controller", "gridmesh-dns")
	}
	return list
}

// sum is that of everything that a proxy's outcomes are about.
func sum(proxy string, with beside) (string, error) {
	all := sha256.New()
	for _, name := range tested(proxy, with) {
		if err := addFile(all, edge.Binary(name)); err != nil {
			return "", err
		}
	}
	if strings.HasPrefix(proxy, ours) {
		err := filepath.WalkDir(filepath.Join(edge.Root(), "deploy"), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".yaml") {
				return err
			}
			return addFile(all, path)
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(all.Sum(nil)[:8]), nil
}

func addFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Fprintln(w, filepath.Base(path))
	_, err = io.Copy(w, f)
	return err
}
