package cleanup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/source"
)

// BootstrapFile is, beside the socket of xDS, what deploy/ has bootstrap write.
const BootstrapFile = "envoy.yaml"

// dnsSnapshot is what gridmesh-dns keeps with the Corefile of deploy/.
const dnsSnapshot = "dns.v1"

// keptFiles are, in the directory of the state, what the agent keeps there and
// what gridmesh-dns does.
var keptFiles = []string{
	source.StateFile, atomicfile.Aside(source.StateFile), statedir.OutageFile, atomicfile.Aside(statedir.OutageFile),
	statedir.ContactFile, atomicfile.Aside(statedir.ContactFile), dnsSnapshot, atomicfile.Aside(dnsSnapshot), statedir.LockFile,
}

// Kept are the names in the directory of the state that are gridmesh's: files, and
// the directory of what sysctls were.
func Kept() []string { return append([]string{capture.SysctlDir}, keptFiles...) }

// removeFiles removes what gridmesh has on disk, by its names: what else is in
// the directories is somebody's own. The directories stay, for they may be
// mounts. Values of sysctls that could not be put back stay too.
func (c Config) removeFiles() error {
	list := []string{
		c.XDSSocket, c.StatusSocket, c.FeedSocket, c.AdminSocket,
		filepath.Join(filepath.Dir(c.XDSSocket), BootstrapFile),
	}
	for _, name := range keptFiles {
		list = append(list, c.kept(name))
	}
	var errs []error
	for _, path := range list {
		errs = append(errs, remove(path), removeBeside(path))
	}
	// Empty once every value is as it was.
	return errors.Join(append(errs, remove(c.kept(capture.SysctlDir)))...)
}

// removeBeside removes what is made beside a file: locks of sockets, and what a writer
// that died left. The directory may be called as patterns are.
func removeBeside(path string) error {
	dir, name := filepath.Split(path)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for what is left of gridmesh: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "."+name+".") {
			errs = append(errs, remove(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// kept is the path of what has a name in the directory of the state.
func (c Config) kept(name string) string { return filepath.Join(c.Host.StateDir, name) }

// remove removes a file or an empty directory, where it is there.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what is left of gridmesh: %w", err)
	}
	return nil
}
