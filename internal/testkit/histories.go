package testkit

import (
	"os"
	"strconv"
)

// Histories is how many random histories a test of a law goes through: few, so
// that everybody runs it, or as many times more as the environment's HISTORIES
// says, for who changed what the law is about.
func Histories(few uint64) uint64 {
	times, err := strconv.ParseUint(os.Getenv("HISTORIES"), 10, 16)
	if err != nil || times == 0 {
		return few
	}
	return few * times
}
