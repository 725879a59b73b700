package node

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// The hosts file is kept where one is named.
func TestTheHostsFileIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cfg.HostsFile = filepath.Join(t.TempDir(), "hosts")
		r.mustStart(t)
		r.publish(webOnly())
		after(time.Second)
		if _, err := os.Stat(r.cfg.HostsFile); err != nil {
			t.Error(err)
		}
	})
}
