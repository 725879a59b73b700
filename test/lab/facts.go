package main

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/obs"
)

// printFacts says what a figure was measured on.
func printFacts() {
	var u unix.Utsname
	var i unix.Sysinfo_t
	if unix.Uname(&u) != nil || unix.Sysinfo(&i) != nil {
		return
	}
	fmt.Printf("gridmesh %s, Envoy 1.40.0, Linux %s, %d cores shared by everything, %d GiB, %s\n",
		obs.Version(), unix.ByteSliceToString(u.Release[:]), runtime.NumCPU(), i.Totalram*uint64(i.Unit)>>30, runtime.Version())
}
