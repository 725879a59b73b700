package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What gridmesh has on disk goes, and nothing else: also what is made beside
// sockets and by writers that died, and not the value of a sysctl that could
// not be put back.
func TestRemoveFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"state/state", "state/outage", "state/contact", "state/state.bad", "state/dns.v1", "state/lock", "state/.state.tmp-1", "state/hosts",
		"run/xds.sock", "run/.xds.sock.lock", "run/agent.sock", "run/feed.sock", "run/envoy-admin.sock", "run/envoy.yaml", "run/other.sock",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "state/sysctl"), 0o700); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--state-dir", dir + "/state"}
	for flag, name := range map[string]string{"xds": "xds", "status": "agent", "feed": "feed", "admin": "envoy-admin"} {
		flags = append(flags, "--"+flag+"-socket", dir+"/run/"+name+".sock")
	}
	c, err := completed(t, flags...)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing left to do
		if err := removeFiles(c); err != nil {
			t.Error(err)
		}
	}
	var left []string
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		left = append(left, name)
		return err
	})
	if want := []string{".", "run", "run/other.sock", "state", "state/hosts"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q: %v", left, want, err)
	}

	record := filepath.Join(dir, "state/sysctl/net.ipv4.tcp_early_demux")
	if err := errors.Join(os.Mkdir(filepath.Dir(record), 0o700), os.WriteFile(record, []byte("1"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := removeFiles(c); err == nil {
		t.Error("the value of a sysctl that is still to be put back is passed over in silence")
	}
	if _, err := os.Stat(record); err != nil {
		t.Error(err)
	}
}
