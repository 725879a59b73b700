package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// Names of PEM blocks.
const (
	blockCert = "CERTIFICATE"
	blockKey  = "PRIVATE KEY"
)

// skew is how far the clocks of an API server and of the webhook may be apart: a
// certificate is valid for as long before it was made.
const skew = time.Hour

// Pair is a serving certificate, in PEM.
type Pair struct {
	CA, Cert, Key []byte
}

// Issue makes a pair for hosts, which are names and addresses. Its authority is made for
// it, and ends with it.
func Issue(hosts []string, lifetime time.Duration, now time.Time) (Pair, error) {
	from, until := now.Add(-skew).UTC(), now.Add(lifetime).UTC()
	ca, err := template(from, until)
	if err != nil {
		return Pair{}, err
	}
	// The serial number tells authorities apart: verifiers look them up by subject.
	ca.Subject = pkix.Name{CommonName: fmt.Sprintf("gridmesh-admission CA %x", ca.SerialNumber)}
	ca.IsCA, ca.BasicConstraintsValid, ca.MaxPathLenZero, ca.KeyUsage = true, true, true, x509.KeyUsageCertSign
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make a key: %w", err)
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return Pair{}, fmt.Errorf("make an authority: %w", err)
	}
	if ca, err = x509.ParseCertificate(caDER); err != nil {
		return Pair{}, fmt.Errorf("read the authority: %w", err)
	}
	cert, err := template(from, until)
	if err != nil {
		return Pair{}, err
	}
	cert.Subject = pkix.Name{CommonName: "gridmesh-admission"}
	cert.BasicConstraintsValid, cert.KeyUsage, cert.ExtKeyUsage = true, x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	cert.DNSNames, cert.IPAddresses = split(hosts)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, ca, key.Public(), caKey)
	if err != nil {
		return Pair{}, fmt.Errorf("make a certificate for %q: %w", hosts, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("write the key: %w", err)
	}
	return Pair{CA: encode(blockCert, caDER), Cert: encode(blockCert, der), Key: encode(blockKey, keyDER)}, nil
}

func template(from, until time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	return &x509.Certificate{SerialNumber: serial.Add(serial, big.NewInt(1)), NotBefore: from, NotAfter: until}, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// split parts hosts into names and addresses.
func split(hosts []string) (names []string, ips []net.IP) {
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			ips = append(ips, ip)
		} else {
			names = append(names, host)
		}
	}
	return names, ips
}

// What is wrong with a pair.
var (
	errNone  = errors.New("there is none")
	errOther = errors.New("another authority signed it")
)

// Load reads a certificate with its key, as a server has them. No error has anything of
// the key in it.
func Load(cert, key []byte) (tls.Certificate, error) {
	if len(cert) == 0 || len(key) == 0 {
		return tls.Certificate{}, errNone
	}
	return tls.X509KeyPair(cert, key)
}

// leaf returns the certificate of a pair that is whole.
func (p Pair) leaf() (*x509.Certificate, error) {
	pair, err := Load(p.Cert, p.Key)
	if err != nil {
		return nil, err
	}
	cas := parse(p.CA)
	if len(cas) != 1 || pair.Leaf.CheckSignatureFrom(cas[0]) != nil {
		return nil, errOther
	}
	return pair.Leaf, nil
}

// valid reports whether an API server believes a pair now.
func (p Pair) valid(now time.Time) bool {
	leaf, err := p.leaf()
	return err == nil && !now.Before(leaf.NotBefore) && now.Before(leaf.NotAfter)
}

// isFor reports whether a certificate is for these hosts, and no others.
func isFor(leaf *x509.Certificate, hosts []string) bool {
	have := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		have = append(have, ip.String())
	}
	var want []string
	names, ips := split(hosts)
	want = append(want, names...)
	for _, ip := range ips {
		want = append(want, ip.String())
	}
	slices.Sort(have)
	slices.Sort(want)
	return slices.Equal(slices.Compact(have), slices.Compact(want))
}

// parse reads the certificates of a bundle, and passes over what is none.
func parse(bundle []byte) (list []*x509.Certificate) {
	for {
		block, rest := pem.Decode(bundle)
		if block == nil {
			return list
		}
		bundle = rest
		if block.Type != blockCert {
			continue
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			list = append(list, cert)
		}
	}
}

// holds reports whether a bundle has an authority in it.
func holds(bundle []byte, ca *x509.Certificate) bool {
	return slices.ContainsFunc(parse(bundle), func(c *x509.Certificate) bool { return bytes.Equal(c.Raw, ca.Raw) })
}
