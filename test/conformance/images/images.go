// Package images makes the images that Kubernetes' own network specs use, out
// of Debian's programs and of what Kubernetes builds from its sources, under
// the names that the specs ask for: no registry is needed.
//
// They are made for the specs of Services and names, not for all that the
// published ones can do.
package images

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/test/cluster/realnode"
)

// Names that the specs of Kubernetes v1.36.3 use.
const (
	agnhost  = "registry.k8s.io/e2e-test-images/agnhost:2.63.0"
	boom     = "registry.k8s.io/e2e-test-images/regression-issue-74839:1.4"
	busybox  = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1"
	glibc    = "registry.k8s.io/e2e-test-images/glibc-dns-testing:2.0.0"
	iptables = "registry.k8s.io/build-image/distroless-iptables:v0.9.6" // of which specs use sh, cat and grep
	nginx    = "registry.k8s.io/e2e-test-images/nginx:1.15-4"           // which no spec asks anything
	pause    = "registry.k8s.io/pause:3.10.2"
)

// Packages are Debian's packages that the images are made of, besides those
// that are fetched: see fetch.
const Packages = "bash bind9-dnsutils curl dash iproute2 libc-bin wget"

// programs are taken from this machine. The shell is dash: busybox' own runs
// its own applets, whatever the path says, and the specs need the real ones.
var programs = map[string]string{
	"/bin/sh": "dash", "/bin/bash": "bash", "/usr/bin/wget": "wget", "/usr/bin/curl": "curl", "/usr/bin/dig": "dig",
	"/usr/bin/getent": "getent", "/usr/sbin/ip": "ip", "/usr/bin/ss": "ss",
}

// applets of busybox, without those above and without nc.
const applets = "[ arping awk base64 basename cat chmod chown cp cut date dd df dirname du echo env expr false find grep egrep fgrep head hostname id " +
	"ifconfig kill killall ln ls md5sum mkdir mkfifo mktemp mv netstat nproc nslookup od paste pidof ping ping6 printf ps pwd readlink realpath rm " +
	"rmdir route sed seq setsid sha256sum sleep sort stat stty tac tail tar tee test time timeout top touch tr traceroute true tty uname uniq usleep " +
	"vi watch wc which whoami xargs yes"

// MissingPrograms says which of Debian's programs are not on this machine.
func MissingPrograms() error {
	var lacks []string
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			lacks = append(lacks, name)
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	slices.Sort(lacks)
	return fmt.Errorf("%s not found (apt-get install %s)", strings.Join(lacks, ", "), Packages)
}

// Missing says what of all that images are made of is not there; dirs are those
// of List.
func Missing(bin, debian string) error {
	errs := []error{MissingPrograms()}
	for _, path := range append(built(bin), filepath.Join(debian, "busybox"), filepath.Join(debian, "nc.openbsd")) {
		if _, err := os.Stat(path); err != nil {
			errs = append(errs, fmt.Errorf("%w (make conformance-programs)", err))
		}
	}
	return errors.Join(errs...)
}

// built are the programs in bin that images hold.
func built(bin string) (paths []string) {
	for _, name := range []string{"agnhost", "pause", "regression-issue-74839", "gridmesh-dns"} {
		paths = append(paths, filepath.Join(bin, name))
	}
	return paths
}

// List returns the images. Programs that were built are in bin, those that
// fetch took out of packages in debian.
func List(bin, debian string) ([]realnode.Image, error) {
	if err := Missing(bin, debian); err != nil {
		return nil, err
	}
	tools, err := root(debian)
	if err != nil {
		return nil, err
	}
	tools.Names, tools.Cmd = []string{busybox, glibc, iptables}, []string{"sh"}
	host, err := root(debian)
	if err != nil {
		return nil, err
	}
	host.Names, host.Entrypoint, host.Cmd = []string{agnhost, nginx}, []string{"/agnhost"}, []string{"pause"}
	host.Files["/agnhost"] = filepath.Join(bin, "agnhost")
	host.Files["/coredns"] = filepath.Join(bin, "gridmesh-dns") // CoreDNS, with more plugins
	host.Links["/agnhost-2"] = "agnhost"
	if host.Text["/localhost.crt"], host.Text["/localhost.key"], err = certificate(); err != nil {
		return nil, err
	}
	return []realnode.Image{tools, host, {
		Names: []string{pause}, Files: map[string]string{"/pause": filepath.Join(bin, "pause")}, Entrypoint: []string{"/pause"},
	}, {
		Names: []string{boom}, Files: map[string]string{"/boom": filepath.Join(bin, "regression-issue-74839")}, Entrypoint: []string{"/boom"},
	}}, nil
}

// root is a file system with the tools that specs run in pods.
func root(debian string) (realnode.Image, error) {
	m := realnode.Image{
		Files: map[string]string{"/bin/busybox": filepath.Join(debian, "busybox"), "/bin/nc": filepath.Join(debian, "nc.openbsd")},
		Links: map[string]string{},
		Text: map[string]string{
			"/etc/passwd":        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
			"/etc/group":         "root:x:0:\nnogroup:x:65534:\n",
			"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
		},
	}
	for inside, name := range programs {
		path, err := exec.LookPath(name)
		if err != nil {
			return m, err
		}
		// A link's own name may be taken: what it leads to is copied.
		if m.Files[inside], err = filepath.EvalSymlinks(path); err != nil {
			return m, err
		}
	}
	for name := range strings.FieldsSeq(applets) {
		m.Links["/bin/"+name] = "busybox"
	}
	return m, nil
}
