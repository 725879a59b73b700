package main

import (
	"errors"
	"syscall"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// killPodProcesses kills every process whose network is a pod's.
func killPodProcesses(uid string) error {
	pids, err := edge.PodProcesses(uid)
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return err
}
