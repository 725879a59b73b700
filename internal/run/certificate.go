package run

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
)

// CertificateFiles names the PEM files of a TLS server. They may be links, as
// in a mounted Secret.
type CertificateFiles struct {
	Cert, Key string
	// ClientCA is optional. With it every client must show a certificate of
	// one of its authorities.
	ClientCA string
}

// certificateEvery is how often the files are looked at.
const certificateEvery = 10 * time.Second

// Certificate is a TLS server's certificate that follows its files. What
// cannot be used, such as a certificate whose key is not written yet, changes
// nothing: the last good files stay in force, and it is logged once.
type Certificate struct {
	files   CertificateFiles
	log     *slog.Logger
	current atomic.Pointer[tls.Config]
	failed  atomic.Pointer[error]
	seen    [3][]byte // what was read last, good or bad
}

// LoadCertificate reads the files, which must be good.
func LoadCertificate(files CertificateFiles, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{files: files, log: log}
	content, err := files.read()
	if err != nil {
		return nil, err
	}
	cfg, err := c.parse(content)
	if err != nil {
		return nil, err
	}
	c.seen = content
	c.current.Store(cfg)
	return c, nil
}

// TLS returns a server's configuration that has the newest certificate at
// every handshake, and offers HTTP/2 and HTTP/1.1.
func (c *Certificate) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
	}
}

// Err returns why the files as they are now cannot be used, nil when they are
// in force. It suits a readiness check.
func (c *Certificate) Err() error {
	if p := c.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// Expires is when the certificate in force does.
func (c *Certificate) Expires() time.Time { return c.current.Load().Certificates[0].Leaf.NotAfter }

// Run follows the files until ctx ends.
func (c *Certificate) Run(ctx context.Context) error {
	tick := time.NewTicker(certificateEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			c.reload()
		}
	}
}

// reload compares content, not times: a Secret's volume swaps a link, and a
// clock may jump.
func (c *Certificate) reload() {
	content, err := c.files.read()
	if err != nil {
		c.seen = [3][]byte{}
		c.keep(err)
		return
	}
	if same(content, c.seen) {
		return
	}
	c.seen = content
	cfg, err := c.parse(content)
	if err != nil {
		c.keep(err)
		return
	}
	c.failed.Store(nil)
	c.current.Store(cfg)
	c.log.Info("certificate read again", obs.KeyCert, c.files.Cert)
}

// keep notes why the last good certificate stays, and logs it when it is new.
func (c *Certificate) keep(err error) {
	if was := c.Err(); was == nil || was.Error() != err.Error() {
		c.log.Error("keeping the last good certificate", obs.KeyErr, err)
	}
	c.failed.Store(&err)
}

func same(a, b [3][]byte) bool {
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// read returns what the files hold: certificate, key, client CA.
func (f CertificateFiles) read() (content [3][]byte, err error) {
	for i, path := range []string{f.Cert, f.Key, f.ClientCA} {
		if path == "" && i == 2 {
			continue
		}
		if content[i], err = readPEM(path); err != nil {
			return content, fmt.Errorf("read the certificate: %w", err)
		}
	}
	return content, nil
}

var protocols = []string{"h2", "http/1.1"}

// parse makes a configuration of its own for every certificate, so that no
// session ticket outlives a change of the client CA.
func (c *Certificate) parse(content [3][]byte) (*tls.Config, error) {
	f := c.files
	pair, err := tls.X509KeyPair(content[0], content[1])
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", f.Cert, f.Key, err)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, Certificates: []tls.Certificate{pair}}
	if f.ClientCA != "" {
		cfg.ClientCAs = x509.NewCertPool()
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
		unread, err := addCAs(cfg.ClientCAs, content[2])
		if err != nil {
			return nil, fmt.Errorf("client CA %s: %w", f.ClientCA, err)
		}
		if unread != nil {
			c.log.Warn("client certificates of some authorities are refused, for their certificates cannot be read; make these anew", obs.KeyCert, f.ClientCA, obs.KeyErr, unread)
		}
	}
	return cfg, nil
}
