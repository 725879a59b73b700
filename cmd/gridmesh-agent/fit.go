package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture"
)

// mayAdminister reports an error where this process may not read the rules of
// its network, and so cannot write them either. It changes nothing.
func mayAdminister() error {
	if _, err := capture.Inspect(); errors.Is(err, unix.EPERM) {
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
	if err != nil {
		return fmt.Errorf("read --manifests: %w", err)
	}
	return nil
}
