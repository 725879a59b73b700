package run

import (
	"bytes"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A bundle of client CAs that is written by halves is not taken: who the rest
// stands for would be shut out.
func TestHalfABundleIsRefused(t *testing.T) {
	first, second := newAuthority(t), newAuthority(t)
	whole := append(append([]byte("# ours\n"), first.pem()...), append([]byte("\n# theirs\n"), second.pem()...)...)
	f := newTLSFiles(t, first, whole)
	c := f.load(slog.New(slog.DiscardHandler))
	good := c.current.Load()
	broken := bytes.Replace(whole, second.pem()[40:60], []byte("!!!!!!!!!!!!!!!!!!!!"), 1)
	for name, text := range map[string][]byte{
		"cut": whole[:len(whole)-100], "cut in its first line": whole[:len(whole)-len(second.pem())+7], "cut before its last line": whole[:len(whole)-15],
		"cut in its first dashes": append(bytes.Clone(whole), "---"...), "the end of a third": append(bytes.Clone(whole), "AAAA\n-----END CERTIFICATE-----\n"...),
		"damaged":        broken,
		"no certificate": []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "nothing": nil,
	} {
		f.write(f.ClientCA, text)
		if c.reload(); c.Err() == nil || !strings.Contains(c.Err().Error(), "client CA "+f.ClientCA) || c.current.Load() != good {
			t.Errorf("%s: %v", name, c.Err())
		}
	}
	for name, behind := range map[string]string{
		"nothing": "", "a line": "\n# the end\n", "a line without an end": "the end", "what openssl s_client writes": "---\nServer certificate\nsubject=CN=x\n\n---\nNo client certificate CA names sent\n---\n",
	} {
		f.write(f.ClientCA, append(bytes.Clone(whole), behind...))
		if c.reload(); c.Err() != nil {
			t.Errorf("%s behind: %v", name, c.Err())
		}
	}
}

// A certificate that cannot be read shuts out its own clients alone: at a start there
// are no last good ones.
func TestACertificateThatCannotBeRead(t *testing.T) {
	a := newAuthority(t)
	odd := []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	f := newTLSFiles(t, a, append(bytes.Clone(odd), a.pem()...))
	var log bytes.Buffer
	c := f.load(slog.New(slog.NewTextHandler(&log, nil)))
	want := x509.NewCertPool()
	want.AppendCertsFromPEM(a.pem())
	if !c.current.Load().ClientCAs.Equal(want) {
		t.Error("the other one is not in force")
	}
	if n := strings.Count(log.String(), "cannot be read"); n != 1 || !strings.Contains(log.String(), "block 1 of it") {
		t.Errorf("said %d times: %s", n, &log)
	}
	f.write(f.ClientCA, odd)
	if _, err := LoadCertificate(f.CertificateFiles, slog.New(slog.DiscardHandler)); !errors.Is(err, errNoCertificate) || !strings.Contains(err.Error(), "block 1 of it") {
		t.Errorf("alone: %v", err)
	}
}

// What is no file has no end, or waits for who writes.
func TestCertificatesAreFiles(t *testing.T) {
	a := newAuthority(t)
	f := newTLSFiles(t, a, nil)
	c := f.load(slog.New(slog.DiscardHandler))
	for name, put := range map[string]func() error{
		"a pipe":           func() error { return syscall.Mkfifo(f.Cert, 0o600) },
		"a device":         func() error { return os.Symlink(os.DevNull, f.Cert) },
		"a file too large": func() error { return errors.Join(os.WriteFile(f.Cert, nil, 0o600), os.Truncate(f.Cert, 2<<20)) },
	} {
		if err := errors.Join(os.Remove(f.Cert), put()); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { defer close(done); c.reload() }()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Fatal(name, "is waited for")
		}
		if err := c.Err(); err == nil || !strings.Contains(err.Error(), f.Cert+" is no file of at most") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
