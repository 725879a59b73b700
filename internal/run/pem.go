package run

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxPEM is how large a file of certificates may be.
const maxPEM = 1 << 20

// readPEM reads a file, also behind links, and waits for nobody: a pipe has no end.
func readPEM(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data, err := []byte(nil), error(nil)
	if info.Mode().IsRegular() {
		data, err = io.ReadAll(io.LimitReader(f, maxPEM+1))
	}
	if !info.Mode().IsRegular() || len(data) > maxPEM {
		return nil, fmt.Errorf("%s is no file of at most %d bytes (its mode is %s)", path, maxPEM, info.Mode())
	}
	return data, err
}

var (
	errNoCertificate = errors.New("no PEM certificate is in it")
	errHalf          = errors.New("it has a part that is no whole PEM block; is it being written?")
)

// addCAs adds the certificates of a bundle, of which each must be whole: without
// one its clients would be shut out. Text beside the certificates is a comment
// (RFC 7468, section 2).
func addCAs(pool *x509.CertPool, bundle []byte) error {
	begun, blocks, added := bytes.Count(bundle, []byte("-----BEGIN ")), 0, 0
	for {
		block, rest := pem.Decode(bundle)
		if block == nil {
			break
		}
		bundle = rest
		if blocks++; block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("certificate %d of it: %w", added+1, err)
		}
		pool.AddCert(cert)
		added++
	}
	switch {
	case added == 0:
		return errNoCertificate
	case blocks != begun || isHalf(bundle):
		return errHalf
	}
	return nil
}

// isHalf reports whether what is behind the last block is, or begins, a part of one.
func isHalf(behind []byte) bool {
	line := behind[bytes.LastIndexByte(behind, '\n')+1:] // which a comment ends
	return bytes.Contains(behind, []byte("-----")) || len(line) > 0 && len(bytes.Trim(line, "-")) == 0
}
