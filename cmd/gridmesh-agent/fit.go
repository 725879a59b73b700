package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/run"
)

// mayAdminister reports an error where this process may not read the rules of
// its network, and so cannot write them either. It changes nothing.
func mayAdminister() error {
	if err := capture.Permitted(); errors.Is(err, unix.EPERM) {
		return fmt.Errorf("this network's rules are not to be read or changed without CAP_NET_ADMIN, which is missing: run as root, or with that capability (deploy/ adds it in securityContext.capabilities): %w", err)
	}
	return nil // anything else is told by who meets it
}

// readable reports an error where the manifests cannot be read at the start,
// which is when that ends the agent. It changes nothing.
func readable(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		_, err = os.ReadDir(path)
	}
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return fmt.Errorf("%w: --manifests %s is neither a directory nor a file (its mode is %s); give one of these", run.ErrUsage, path, info.Mode())
	}
	if err != nil {
		return fmt.Errorf("read --manifests: %w", err)
	}
	return nil
}

// hasSysctls reports an error where --proc-sys leads to no sysctls: those of the
// capture would be taken for ones that this kernel lacks. It changes nothing.
func hasSysctls(path string) error {
	if _, err := os.Stat(filepath.Join(path, "net")); err != nil {
		return fmt.Errorf("%w: --proc-sys %s is not where the kernel has its sysctls: %w; leave the flag out, or mount the node's /proc/sys there", run.ErrUsage, path, err)
	}
	return nil
}
