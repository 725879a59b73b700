package cleanup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/source"
)

// BootstrapFile is, beside the socket of xDS, what deploy/ has bootstrap write.
const BootstrapFile = "envoy.yaml"

// dnsSnapshot is what gridmesh-dns keeps with the Corefile of deploy/.
const dnsSnapshot = "dns.v1"

// keptFiles are, in the directory of the state, what the agent keeps there and what
// gridmesh-dns does, and what each is known by. The first five may be set aside.
var keptFiles = map[string]ours{
	source.StateFile:     file(begins(snapshotMagic)),
	source.ManifestsFile: file(begins(source.MemoryMagic)),
	dnsSnapshot:          file(begins(snapshotMagic)),
	statedir.OutageFile:  file(begins("{")),
	statedir.ContactFile: file(isBoot),
	statedir.LockFile:    file(isEmpty),

	atomicfile.Aside(source.StateFile):     anyFile,
	atomicfile.Aside(source.ManifestsFile): anyFile,
	atomicfile.Aside(dnsSnapshot):          anyFile,
	atomicfile.Aside(statedir.OutageFile):  anyFile,
	atomicfile.Aside(statedir.ContactFile): anyFile,
}

// Kept are the names in the directory of the state that are gridmesh's: files, and
// the directory of what sysctls were.
func Kept() []string {
	return append([]string{capture.SysctlDir}, slices.Sorted(maps.Keys(keptFiles))...)
}

// traces are what gridmesh may have made on disk, by its names.
func (c Config) traces() ([]trace, error) {
	bootstrap := filepath.Join(filepath.Dir(c.XDSSocket), BootstrapFile)
	list, written := []trace{{bootstrap, file(c.isBootstrap)}}, []string{bootstrap}
	for _, socket := range []string{c.XDSSocket, c.StatusSocket, c.FeedSocket, c.AdminSocket} {
		lock, dir := run.Beside(socket)
		list = append(list, trace{socket, isSocket}, trace{lock, file(isEmpty)}, trace{filepath.Join(dir, filepath.Base(socket)), isSocket}, trace{dir, isDir})
	}
	for _, name := range Kept()[1:] {
		list = append(list, trace{c.kept(name), keptFiles[name]})
		written = append(written, c.kept(name))
	}
	for _, path := range written {
		left, err := atomicfile.Left(path)
		if err != nil {
			return nil, fmt.Errorf("look for what is left of gridmesh: %w", err)
		}
		for _, path := range left {
			list = append(list, trace{path, anyFile})
		}
	}
	return list, nil
}

// removeFiles removes what gridmesh has on disk, and returns what it leaves: what else is
// in the directories is somebody's own. They stay, for they may be mounts.
func (c Config) removeFiles() (left []Left, err error) {
	list, err := c.traces()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, t := range list {
		why, err := t.remove()
		if why != "" {
			left = append(left, Left{t.path, why})
		}
		errs = append(errs, err)
	}
	return left, errors.Join(errs...)
}

// leftOfSysctls is what is among the records of sysctls, once these were put back. The
// directory goes where files do, and nothing is in it.
func (c Config) leftOfSysctls() (left []Left, err error) {
	dir := c.kept(capture.SysctlDir)
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err == nil && !info.IsDir():
		return []Left{{dir, fmt.Sprintf("it is no directory (its mode is %s), and nothing was read from it", info.Mode())}}, nil
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		why := "it is no record of a sysctl that gridmesh sets, or was not put back"
		if e.Name() == capture.EarlyDemux {
			why = "that sysctl stays 0, for it could not be seen (sock_diag) that what Envoy held in pods' names is gone: end Envoy and run this again, or set it to 1 in a minute"
		}
		left = append(left, Left{filepath.Join(dir, e.Name()), why})
	}
	if err == nil && len(entries) == 0 && c.Files {
		err = os.Remove(dir)
	}
	if err != nil {
		return left, fmt.Errorf("remove what is left of gridmesh: %w", err)
	}
	return left, nil
}

// kept is the path of what has a name in the directory of the state.
func (c Config) kept(name string) string { return filepath.Join(c.Host.StateDir, name) }
