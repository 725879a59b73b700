package check

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
)

// Credentials are paths of PEM files, and of one with a bearer token, that are read anew at
// each check. Without any, kubelets are asked as nobody.
type Credentials struct {
	// Token is shown to kubelets whose certificate is of CA and of the node that is asked
	// (SuperEdge shows it to everybody).
	Token, CA string
	// Cert and Key are a client certificate. Whom it is shown to cannot use it.
	Cert, Key string
}

func (c Credentials) validate() error {
	switch {
	case (c.Cert == "") != (c.Key == ""):
		return errors.New("a client certificate for kubelets needs its key, and the key its certificate")
	case c.Token != "" && c.CA == "":
		return errors.New("a token for kubelets needs the CA of their certificates: it is shown to nobody else")
	}
	return nil
}

// credentials are what is in the files.
type credentials struct {
	token string
	roots *x509.CertPool
	cert  *tls.Certificate
}

func (c credentials) some() bool { return c.token != "" || c.cert != nil }

// load reads what can be read: what cannot is not shown, and the node is checked without.
func (c Credentials) load() (shown credentials, err error) {
	var errs []error
	if c.Token != "" {
		token, tokenErr := readFile(c.Token)
		ca, caErr := readFile(c.CA)
		shown.roots = x509.NewCertPool()
		if caErr == nil && !shown.roots.AppendCertsFromPEM(ca) {
			caErr = fmt.Errorf("%s: no certificate of an authority is in it", c.CA)
		}
		if err := errors.Join(tokenErr, caErr); err != nil {
			errs = append(errs, err)
		} else {
			shown.token = string(bytes.TrimSpace(token))
		}
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			errs = append(errs, fmt.Errorf("client certificate for kubelets: %w", err))
		} else {
			shown.cert = &pair
		}
	}
	return shown, errors.Join(errs...)
}

// mostFile is more than a token or a bundle of authorities has.
const mostFile = 1 << 20

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mostFile))
}

// unknown is why who answers may be another than the kubelet of a node; empty where its
// certificate is of the authorities, and is the node's by address or name. That of another
// node of the cluster is not: it is not to be given what opens this one.
func (c credentials) unknown(state tls.ConnectionState, t Target) string {
	leaf := state.PeerCertificates[0]
	between := x509.NewCertPool()
	for _, cert := range state.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: c.roots, Intermediates: between}); err != nil {
		return "the kubelet's certificate: " + err.Error()
	}
	if leaf.Subject.CommonName != "system:node:"+t.Node && leaf.VerifyHostname(t.Node) != nil && leaf.VerifyHostname(t.Addr.String()) != nil {
		return fmt.Sprintf("the certificate is of %q, and not of this node's kubelet", leaf.Subject.CommonName)
	}
	return ""
}
