package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// killPodProcesses kills every process whose network is a pod's.
func killPodProcesses(uid string) error {
	want, err := os.Stat("/run/netns/pod-" + uid)
	if err != nil {
		return err
	}
	links, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		return err
	}
	killed := 0
	for _, link := range links {
		got, err := os.Stat(link)
		if err != nil || !os.SameFile(want, got) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(link))))
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		killed++
	}
	if killed == 0 {
		return fmt.Errorf("no process of pod %s was found", uid)
	}
	return nil
}
