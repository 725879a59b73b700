package check

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// serve has a kubelet's stand-in at an address.
func serve(t *testing.T, h http.HandlerFunc, cfg *tls.Config) (at Target, port uint16) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = nil
	if cfg != nil {
		s.TLS = cfg
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.CloseClientConnections)
	t.Cleanup(s.Close)
	a := netip.MustParseAddrPort(s.Listener.Addr().String())
	return Target{Node: "n", Addr: a.Addr()}, a.Port()
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func TestKubelet(t *testing.T) {
	raw := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_, _ = conn.Write([]byte(text))
			_ = conn.Close()
		}
	}
	for name, tc := range map[string]struct {
		h    http.HandlerFunc
		well bool
		why  string
	}{
		"ok":                        {says(200, "ok"), true, ""},
		"a sync loop":               {says(500, "[-]syncloop failed"), false, `/healthz answers 500: "[-]syncloop failed"`},
		"not there":                 {says(404, ""), false, "404"},
		"elsewhere":                 {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) }, false, "302"},
		"no HTTP":                   {raw("SSH-2.0\r\n"), false, "malformed"},
		"cut off":                   {raw("HTTP/1.1 2"), false, ""},
		"a header that is too long": {raw("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n"), false, ""},
		"a body without an end":     {says(500, strings.Repeat("x", 4<<20)), false, "500"},
	} {
		t.Run(name, func(t *testing.T) {
			at, port := serve(t, tc.h, nil)
			cfg := Default()
			cfg.Kubelet.On, cfg.Kubelet.Port = true, port
			c := checker(t, cfg, nil)
			got := c.Round(t.Context(), []Target{at})
			if d := c.Details(); got["n"] != tc.well || len(got) != 1 || !strings.Contains(d[0].Err, tc.why) || len(d[0].Err) > 500 {
				t.Errorf("%v, %+v", got, d)
			}
		})
	}
}

// A kubelet that takes connections and answers none is not well, and is waited for no longer than it may.
func TestAKubeletThatHangs(t *testing.T) {
	l := listen(t, addr(9), 0)
	accept(l, func(c net.Conn) { t.Cleanup(func() { _ = c.Close() }) })
	port := netip.MustParseAddrPort(l.Addr().String()).Port()
	for _, on := range []func(c *Config) *Plugin{func(c *Config) *Plugin { return &c.Kubelet }, func(c *Config) *Plugin { return &c.KubeletAuth }} {
		cfg := Default()
		cfg.Within = 600 * time.Millisecond
		on(&cfg).On, on(&cfg).Port = true, port
		began := time.Now()
		if got := checker(t, cfg, nil).Round(t.Context(), []Target{{Node: "n", Addr: addr(9)}}); got["n"] || len(got) != 1 {
			t.Errorf("%v", got)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it took %s", took)
		}
	}
}

// authority signs a kubelet's certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	dir  string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	pair := a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, Subject: pkix.Name{CommonName: "ca"}})
	a.cert, a.key = pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

func (a *authority) sign(c *x509.Certificate) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	c.NotBefore = c.NotAfter.Add(-2 * time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// kubelet is the certificate of a node's.
func (a *authority) kubelet(node string) tls.Certificate {
	return a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "system:node:" + node}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
}

func (a *authority) write(name string, blocks ...*pem.Block) string {
	a.t.Helper()
	var text []byte
	for _, b := range blocks {
		text = append(text, pem.EncodeToMemory(b)...)
	}
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// credentials have a token and the authority.
func (a *authority) credentials() Credentials {
	token := filepath.Join(a.dir, "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return Credentials{Token: token, CA: a.write("ca.pem", &pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})}
}

// Whom a token is shown to, and that a node is not ill for a certificate that is not known.
func TestTokens(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	expired := ca.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "system:node:n"}, NotAfter: time.Now().Add(-time.Minute)})
	byAddress := ca.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "x"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	client := ca.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "system:node:n"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	for name, tc := range map[string]struct {
		cert  tls.Certificate
		shown bool
		why   string
	}{
		"the node's own":                {ca.kubelet("n"), true, ""},
		"with its address":              {byAddress, true, ""},
		"another node's":                {ca.kubelet("m"), false, `the certificate is of "system:node:m"`},
		"of nobody known":               {other.kubelet("n"), false, "unknown authority"},
		"expired":                       {expired, false, "expired"},
		"one with which it asks others": {client, false, "incompatible key usage"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Value
			at, port := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if asked.Store(r.Header.Get("Authorization")); r.Header.Get("Authorization") == "" {
					w.WriteHeader(http.StatusUnauthorized)
				}
			}, &tls.Config{Certificates: []tls.Certificate{tc.cert}})
			cfg := Default()
			cfg.KubeletAuth.On, cfg.KubeletAuth.Port, cfg.Credentials = true, port, ca.credentials()
			c := checker(t, cfg, nil)
			got := c.Round(t.Context(), []Target{at})
			if want := map[bool]string{true: "Bearer secret"}[tc.shown]; !got["n"] || asked.Load() != want {
				t.Errorf("%v, and it was shown %q", got, asked.Load())
			}
			if d := c.Details()[0]; !strings.Contains(d.Err, tc.why) || strings.Contains(d.Err, "secret") || tc.shown && d.Err != "" {
				t.Errorf("%+v", d)
			}
		})
	}
}

func TestKubeletAuth(t *testing.T) {
	ca := newAuthority(t)
	mine := ca.credentials()
	lost := mine
	lost.Token += "-is-not-there"
	for name, tc := range map[string]struct {
		status      int
		body        string
		credentials Credentials
		well        bool
		why         string
	}{
		"ok":                            {200, "ok", mine, true, ""},
		"sick":                          {500, "[-]syncloop failed: sync Loop took longer than expected", mine, false, "syncloop"},
		"who are you":                   {401, "Unauthorized", mine, true, "answers, but not to who asks"},
		"you may not":                   {403, "Forbidden (user=x)", mine, true, "Forbidden"},
		"nobody can tell":               {500, "Authorization error (user=x, verb=get, resource=nodes, subresource=healthz)", mine, true, "Authorization error"},
		"asked as nobody":               {401, "Unauthorized", Credentials{}, true, "401"},
		"the token's file is not there": {401, "Unauthorized", lost, true, "no such file"},
		"another answer":                {503, "", mine, false, "503"},
	} {
		t.Run(name, func(t *testing.T) {
			at, port := serve(t, says(tc.status, tc.body), &tls.Config{Certificates: []tls.Certificate{ca.kubelet("n")}})
			cfg := Default()
			cfg.KubeletAuth.On, cfg.KubeletAuth.Port, cfg.Credentials = true, port, tc.credentials
			c := checker(t, cfg, nil)
			got := c.Round(t.Context(), []Target{at})
			if d := c.Details()[0]; got["n"] != tc.well || !strings.Contains(d.Err, tc.why) {
				t.Errorf("%v, %+v", got, d)
			}
		})
	}
}

// A kubelet whose API server is away tries to have a token confirmed for longer than it is
// waited for. Its node is well.
func TestAKubeletWithoutACloud(t *testing.T) {
	ca := newAuthority(t)
	var asked atomic.Int32
	at, port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1); r.Header.Get("Authorization") != "" {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
	}, &tls.Config{Certificates: []tls.Certificate{ca.kubelet("n")}})
	cfg := Default()
	cfg.KubeletAuth.On, cfg.KubeletAuth.Port, cfg.Credentials = true, port, ca.credentials()
	c := checker(t, cfg, nil)
	if got := c.Round(t.Context(), []Target{at}); !got["n"] || asked.Load() != 2 {
		t.Errorf("%v after %d questions: %+v", got, asked.Load(), c.Details())
	}
}

// A client certificate is shown to all: who is shown it cannot use it.
func TestAClientCertificate(t *testing.T) {
	ca := newAuthority(t)
	pair := ca.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "asks"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	der, err := x509.MarshalECPrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	shown := Credentials{
		Cert: ca.write("client.pem", &pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		Key:  ca.write("client.key", &pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
	}
	at, port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) != 1 || r.TLS.PeerCertificates[0].Subject.CommonName != "asks" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}, &tls.Config{Certificates: []tls.Certificate{ca.kubelet("n")}, ClientAuth: tls.RequestClientCert})
	cfg := Default()
	cfg.KubeletAuth.On, cfg.KubeletAuth.Port, cfg.Credentials = true, port, shown
	c := checker(t, cfg, nil)
	if got := c.Round(t.Context(), []Target{at}); !got["n"] {
		t.Errorf("%v: %+v", got, c.Details())
	}
}
