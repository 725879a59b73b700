package main

import (
	"errors"
	"fmt"

	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// Exit codes, besides that of a command that ran inside.
const (
	exitFailure = 1
	exitUsage   = 2
)

// exitCode is the exit code of a command that ran inside.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usageError is a mistake in what was typed.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

var (
	errStopped           = errors.New("stopped before it was done")
	errNoController      = errors.New("the lab has no controller: it is there with --proxy gridmesh")
	errControllerRuns    = errors.New("the controller runs")
	errControllerStopped = errors.New("the controller does not run; start it with: lab start controller")
)

// codeOf is the exit code that an error comes to.
func codeOf(err error) int {
	var inside exitCode
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &inside):
		return int(inside)
	case errors.As(err, &usage), errors.Is(err, netlab.ErrNone):
		return exitUsage
	}
	return exitFailure
}
