package sandbox

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// needed are the capabilities that root makes a sandbox with. Who is not root
// has all of them inside, by a user namespace.
var needed = []struct {
	bit  uint
	name string
}{{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}, {unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"}}

// missingRights says what root lacks, as in an ordinary container.
func missingRights() error {
	if os.Geteuid() != 0 {
		return nil
	}
	var sets [2]unix.CapUserData // of 32 capabilities each
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0]); err != nil {
		return fmt.Errorf("read this process's capabilities: %w", err)
	}
	if lacks := lacking(uint64(sets[0].Effective) | uint64(sets[1].Effective)<<32); len(lacks) > 0 {
		return fmt.Errorf("cannot make namespaces: root lacks %s here; in a container: run that with --privileged; "+
			"else run this as an ordinary user, where user namespaces are allowed", strings.Join(lacks, " and "))
	}
	return nil
}

// lacking names what is needed and not among the effective capabilities.
func lacking(effective uint64) (names []string) {
	for _, c := range needed {
		if effective>>c.bit&1 == 0 {
			names = append(names, c.name)
		}
	}
	return names
}
