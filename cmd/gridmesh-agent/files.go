package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// keptFiles are, in the directory of the state, what the agent keeps there and
// what gridmesh-dns does with the Corefile of deploy/.
var keptFiles = []string{"state", "state.bad", "outage", "outage.bad", "contact", "contact.bad", "dns.v1", "dns.v1.bad", "lock"}

// sysctlDir has, beside them, the values of sysctls as they were.
const sysctlDir = "sysctl"

// bootstrapFile is, beside the socket of xDS, what deploy/ has bootstrap write.
const bootstrapFile = "envoy.yaml"

// removeFiles removes what gridmesh has on disk, by its names: what else is in
// the directories is somebody's own. The directories stay, for they may be
// mounts. Values of sysctls that could not be put back stay too.
func removeFiles(c *config) error {
	list := []string{
		c.node.XDSSocket, c.node.StatusSocket, c.node.FeedSocket, c.adminSocket,
		filepath.Join(filepath.Dir(c.node.XDSSocket), bootstrapFile),
	}
	for _, name := range keptFiles {
		list = append(list, filepath.Join(c.node.StateDir, name))
	}
	var errs []error
	for _, path := range list {
		errs = append(errs, remove(path))
		// What is made beside it: locks of sockets, and what a writer that died left.
		beside, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".*"))
		for _, path := range beside {
			errs = append(errs, remove(path))
		}
	}
	// Empty once every value is as it was.
	return errors.Join(append(errs, remove(filepath.Join(c.node.StateDir, sysctlDir)))...)
}

// remove removes a file or an empty directory, where it is there.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what is left of gridmesh: %w", err)
	}
	return nil
}
