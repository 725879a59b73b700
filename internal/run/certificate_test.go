package run

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.key, a.cert, _ = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, Subject: pkix.Name{CommonName: "authority"}})
	return a
}

// sign issues template, by itself when there is no authority yet.
func (a *authority) sign(template *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate, []byte) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Unix(0, 0), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, cert, der
}

// pair returns the PEM of a certificate for localhost and of its key.
func (a *authority) pair(name string) (cert, key []byte) {
	priv, _, der := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"}})
	pkcs8, err := x509.MarshalPKCS8PrivateKey(priv)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// tlsFiles are the files of a server under test.
type tlsFiles struct {
	t *testing.T
	CertificateFiles
}

func newTLSFiles(t *testing.T, a *authority, clientCA []byte) tlsFiles {
	dir := t.TempDir()
	f := tlsFiles{t, CertificateFiles{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}}
	if clientCA != nil {
		f.ClientCA = filepath.Join(dir, "ca.crt")
		f.write(f.ClientCA, clientCA)
	}
	f.write2(a.pair("first"))
	return f
}

func (f tlsFiles) write(path string, data []byte) {
	f.t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f tlsFiles) write2(cert, key []byte) {
	f.t.Helper()
	f.write(f.Cert, cert)
	f.write(f.Key, key)
}

func (f tlsFiles) load(log *slog.Logger) *Certificate {
	f.t.Helper()
	c, err := LoadCertificate(f.CertificateFiles, log)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// shown dials and returns the name of the server's certificate.
func shown(t *testing.T, address string, cfg *tls.Config) (string, error) {
	t.Helper()
	cfg = cfg.Clone()
	cfg.ServerName, cfg.NextProtos = "localhost", []string{"h2"}
	conn, err := tls.Dial("tcp", address, cfg)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	// The server looks at the client's certificate after the client is done.
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return "", err
	}
	if got := conn.ConnectionState().NegotiatedProtocol; got != "h2" {
		t.Errorf("protocol %q", got)
	}
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

func TestCertificateFollowsItsFiles(t *testing.T) {
	a := newAuthority(t)
	f := newTLSFiles(t, a, nil)
	var log bytes.Buffer
	c := f.load(slog.New(slog.NewTextHandler(&log, nil)))
	address, stop := serving(t, ServeHTTPS(c.TLS(), http.NotFoundHandler()))
	defer stop()
	shows := func(want string) {
		t.Helper()
		c.reload()
		if got, err := shown(t, address, &tls.Config{RootCAs: a.pool()}); got != want {
			t.Errorf("the server shows %q, %v; want %q", got, err, want)
		}
	}
	shows("first")
	cert, key := a.pair("second")
	f.write(f.Cert, cert) // and the key is on its way
	shows("first")
	shows("first")
	if err := c.Err(); err == nil || !strings.Contains(err.Error(), f.Cert) {
		t.Errorf("error %v", err)
	}
	f.write(f.Key, key)
	shows("second")
	if err := c.Err(); err != nil {
		t.Errorf("error %v", err)
	}
	if n := strings.Count(log.String(), "keeping the last good certificate"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, &log)
	}
	for _, path := range []string{f.Cert, f.Key} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	shows("second")
	if c.Err() == nil {
		t.Error("files that are gone are no error")
	}
	f.write2(cert, key)
	shows("second")
	if err := c.Err(); err != nil {
		t.Errorf("error %v", err)
	}
}

func TestCertificateAsksClients(t *testing.T) {
	a, others := newAuthority(t), newAuthority(t)
	f := newTLSFiles(t, a, a.pem())
	c := f.load(slog.New(slog.DiscardHandler))
	address, stop := serving(t, ServeHTTPS(c.TLS(), http.NotFoundHandler()))
	defer stop()
	client := func(by *authority) *tls.Config {
		cfg := &tls.Config{RootCAs: a.pool(), ClientSessionCache: tls.NewLRUClientSessionCache(8)}
		if by == nil {
			return cfg
		}
		pair, err := tls.X509KeyPair(by.pair("client"))
		if err != nil {
			t.Fatal(err)
		}
		cfg.Certificates = []tls.Certificate{pair}
		return cfg
	}
	ours, theirs := client(a), client(others)
	for name, tc := range map[string]struct {
		cfg *tls.Config
		ok  bool
	}{"none": {client(nil), false}, "another authority's": {theirs, false}, "ours": {ours, true}} {
		if _, err := shown(t, address, tc.cfg); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Who is no client any more does not come back by a session ticket.
	f.write(f.ClientCA, others.pem())
	c.reload()
	if _, err := shown(t, address, ours); err == nil {
		t.Error("a client of the old authority still comes in")
	}
	if _, err := shown(t, address, theirs); err != nil {
		t.Errorf("a client of the new authority: %v", err)
	}
	f.write(f.ClientCA, []byte("no PEM"))
	c.reload()
	if _, err := shown(t, address, theirs); err != nil || c.Err() == nil {
		t.Errorf("with a broken client CA: %v, %v", err, c.Err())
	}
}

func TestCertificateMustBeGoodAtFirst(t *testing.T) {
	a := newAuthority(t)
	f := newTLSFiles(t, a, nil)
	for name, files := range map[string]CertificateFiles{
		"missing": {Cert: f.Cert + ".no", Key: f.Key}, "no name": {Cert: f.Cert},
		"swapped": {Cert: f.Key, Key: f.Cert}, "client CA": {Cert: f.Cert, Key: f.Key, ClientCA: f.Key},
	} {
		if _, err := LoadCertificate(files, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestCertificateLooksNowAndThen(t *testing.T) {
	a := newAuthority(t)
	f := newTLSFiles(t, a, nil)
	second, key := a.pair("second")
	var log testkit.Output
	c := f.load(slog.New(slog.NewTextHandler(&log, nil)))
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var g Group
		g.Add("certificate", c.Run)
		done := make(chan error)
		go func() { done <- g.Run(ctx) }()
		first := c.current.Load()
		time.Sleep(10 * certificateEvery)
		synctest.Wait()
		if c.current.Load() != first || log.String() != "" {
			t.Errorf("read again without a change:\n%s", &log)
		}
		f.write2(second, key)
		time.Sleep(certificateEvery)
		synctest.Wait()
		if c.current.Load() == first {
			t.Error("the new certificate was not seen")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
