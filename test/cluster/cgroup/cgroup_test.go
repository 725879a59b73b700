package cgroup

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// A name is its process's own: another one with the same number, later, does
// not keep the groups of the first.
func TestEnded(t *testing.T) {
	name, err := Own()
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := pidNamespace()
	if err != nil {
		t.Fatal(err)
	}
	who, found := strings.CutPrefix(name, prefix+namespace+"-")
	if !found {
		t.Fatalf("%s does not begin with its namespace %s", name, namespace)
	}
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	self := strconv.Itoa(os.Getpid())
	for who, want := range map[string]bool{
		who:                                     false,
		self + "-1":                             true,
		strconv.Itoa(gone.Process.Pid) + "-123": true,
		"somebody-else":                         false,
	} {
		if got := ended(who); got != want {
			t.Errorf("%s has ended: %v, want %v", who, got, want)
		}
	}
}

// What is made is there in every hierarchy, with CPUs, and gone afterwards.
func TestMakeAndRemove(t *testing.T) {
	name, err := Own()
	if err != nil {
		t.Fatal(err)
	}
	list, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Skip("NO CONTROL GROUPS ARE MOUNTED HERE")
	}
	if err := Make(name + "/a-1/pods"); err != nil {
		if os.IsPermission(err) || strings.Contains(err.Error(), "read-only") {
			t.Skipf("CONTROL GROUPS CANNOT BE MADE HERE: %v", err)
		}
		t.Fatal(err)
	}
	left, err := Left(name)
	if err != nil || len(left) != 3*len(list) {
		t.Errorf("made %q in %d hierarchies: %v", left, len(list), err)
	}
	for _, h := range list {
		if !h.cpuset {
			continue
		}
		cpus, err := os.ReadFile(h.dir + "/" + name + "/a-1/pods/cpuset.cpus")
		if err != nil || strings.TrimSpace(string(cpus)) == "" {
			t.Errorf("no process could run there: cpuset.cpus is %q: %v", cpus, err)
		}
	}
	if err := Sweep(); err != nil {
		t.Error(err)
	}
	if left, err := Left(name); err != nil || len(left) != 3*len(list) {
		t.Errorf("a sweep took groups of a process that lives; left are %q: %v", left, err)
	}
	if err := Remove(name); err != nil {
		t.Error(err)
	}
	if left, err := Left(name); err != nil || len(left) != 0 {
		t.Errorf("left behind: %q: %v", left, err)
	}
}
