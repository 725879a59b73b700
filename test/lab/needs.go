package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// leastFiles is how many files the programs of a cluster must be able to open.
const leastFiles = 256

// missing says what a cluster needs and is not here, before anything is built.
func missing() error {
	return errors.Join(edge.MissingPrograms(), openFiles(), missingIPv6())
}

// openFiles has all that is started open as many files as may be.
func openFiles() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	if err := enoughFiles(limit.Max); err != nil {
		return err
	}
	// Go raised its own at its start, and hands the old one on until told otherwise.
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raise the limit of open files to %d: %w", limit.Max, err)
	}
	return nil
}

// enoughFiles judges the hard limit of open files.
func enoughFiles(hard uint64) error {
	if hard >= leastFiles {
		return nil
	}
	return fmt.Errorf("ulimit -n is %d, also as the hard limit: a cluster's programs open more files than that; set at least %d "+
		"where this shell got it from", hard, leastFiles)
}

// missingIPv6 asks the kernel for it: the lab's networks have both families.
func missingIPv6() error {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	off, _ := os.ReadFile("/sys/module/ipv6/parameters/disable_ipv6") // of every new network; not there: not off
	return judgeIPv6(err, strings.TrimSpace(string(off)))
}

func judgeIPv6(socket error, off string) error {
	switch {
	case socket != nil:
		return fmt.Errorf("the lab's networks need IPv6, and this kernel gives none (%w): "+
			"load its module ipv6, or boot without ipv6.disable=1", socket)
	case off == "1":
		return errors.New("the lab's networks need IPv6, which this kernel turns off in each new one: boot without ipv6.disable_ipv6=1")
	}
	return nil
}
