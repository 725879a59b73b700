package main

import (
	"fmt"
	"io"
	"sync"
)

// logs prints what a program has written: one that runs, or ran last. It is read
// under the lock that programs are started under, and printed without: who reads may
// be slow.
func (c *call) logs(programs *sync.Mutex, args []string) error {
	programs.Lock()
	text, err := c.log(args)
	programs.Unlock()
	if err == nil {
		_, err = io.WriteString(c.files[1], text)
	}
	return err
}

func (c *call) log(args []string) (string, error) {
	if len(args) == 1 && args[0] == controllerName {
		switch {
		case c.keeper == nil && allReal(c.c):
			return "", usagef("on real nodes the controller runs in a pod; say: lab kubectl -n gridmesh logs deployment/gridmesh-controller")
		case c.keeper == nil:
			return "", errNoController
		}
		return c.keeper.log(), nil
	}
	name, n, err := c.programOf(args)
	if err != nil {
		return "", err
	}
	p := process(n, name)
	switch {
	case n.Real && name != "kubelet":
		return "", usagef("on a real node %s runs in a pod; say: lab kubectl -n gridmesh logs -l app.kubernetes.io/name=gridmesh-%s", name, name)
	case p == nil:
		return "", fmt.Errorf("%s has no %s that the lab started: it is there with --proxy gridmesh", n.Name, name)
	}
	return p.Log(), nil
}
