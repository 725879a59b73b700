package realnode

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// pluginDir is where Debian puts the network plugins.
const pluginDir = "/usr/lib/cni"

// Packages are Debian's packages that real nodes need; nft is what their
// kube-proxy writes its rules with.
const Packages = "containerd runc containernetworking-plugins nftables"

// Missing says why this machine cannot run real nodes; nil: it can.
func Missing() error {
	var lacks []string
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "nft"} {
		if _, err := exec.LookPath(program); err != nil {
			lacks = append(lacks, program)
		}
	}
	for _, plugin := range []string{"bridge", "host-local"} {
		if _, err := os.Stat(filepath.Join(pluginDir, plugin)); err != nil {
			lacks = append(lacks, filepath.Join(pluginDir, plugin))
		}
	}
	var errs []error
	if len(lacks) > 0 {
		errs = append(errs, fmt.Errorf("%s not found (apt-get install %s)", strings.Join(lacks, ", "), Packages))
	}
	return errors.Join(append(errs, missingRights())...)
}

func missingRights() error {
	users, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return err
	}
	// A user namespace maps a part of all users, and gives no control groups.
	if f := strings.Fields(string(users)); os.Geteuid() != 0 || len(f) != 3 || f[1] != "0" || len(f[2]) < len("4294967295") {
		return errors.New("they need root, and not that of a user namespace")
	}
	var fs unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &fs); err != nil {
		return fmt.Errorf("control groups: %w", err)
	}
	if err := unix.Access("/sys/fs/cgroup", unix.W_OK); err != nil {
		return fmt.Errorf("control groups cannot be made: %w", err)
	}
	return nil
}
