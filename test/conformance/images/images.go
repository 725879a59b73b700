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
	"strings"

	"github.com/gridmesh/gridmesh/test/cluster/realnode"
)

// Names that the specs of Kubernetes v1.36.3 use.
const (
	agnhost = "registry.k8s.io/e2e-test-images/agnhost:2.63.0"
	busybox = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1"
	glibc   = "registry.k8s.io/e2e-test-images/glibc-dns-testing:2.0.0"
	pause   = "registry.k8s.io/pause:3.10.2"
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

// Missing says which programs are not on this machine; dirs are those of List.
func Missing(bin, debian string) error {
	var errs []error
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			errs = append(errs, fmt.Errorf("%s not found (apt-get install %s)", name, Packages))
		}
	}
	for _, path := range []string{
		filepath.Join(bin, "agnhost"), filepath.Join(bin, "pause"), filepath.Join(debian, "busybox"), filepath.Join(debian, "nc.openbsd"),
	} {
		if _, err := os.Stat(path); err != nil {
			errs = append(errs, fmt.Errorf("%w (make conformance-programs)", err))
		}
	}
	return errors.Join(errs...)
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
	tools.Names, tools.Cmd = []string{busybox, glibc}, []string{"sh"}
	host, err := root(debian)
	if err != nil {
		return nil, err
	}
	host.Names, host.Entrypoint, host.Cmd = []string{agnhost}, []string{"/agnhost"}, []string{"pause"}
	host.Files["/agnhost"] = filepath.Join(bin, "agnhost")
	host.Links["/agnhost-2"] = "agnhost"
	return []realnode.Image{tools, host, {
		Names: []string{pause}, Files: map[string]string{"/pause": filepath.Join(bin, "pause")}, Entrypoint: []string{"/pause"},
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
