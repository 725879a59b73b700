package run

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
)

// maxPEM is how large a file of certificates may be.
const maxPEM = 1 << 20

// readPEM reads a file of certificates, also behind links.
func readPEM(path string) ([]byte, error) {
	data, info, err := atomicfile.ReadAny(path, maxPEM)
	if err == nil && (!info.Mode().IsRegular() || max(info.Size(), int64(len(data))) > maxPEM) {
		err = fmt.Errorf("%s is no file of at most %d bytes (its mode is %s)", path, maxPEM, info.Mode())
	}
	return data, err
}

var (
	errNoCertificate = errors.New("no PEM certificate is in it")
	errHalf          = errors.New("it has a part that is no whole PEM block; is it being written?")
)

// addCAs adds the certificates of a bundle, which must be whole: without one its
// clients would be shut out. One that Go does not parse, as of a negative serial
// number, is passed over where there are others, and unread says so. Text beside the
// certificates is a comment (RFC 7468, section 2).
func addCAs(pool *x509.CertPool, bundle []byte) (unread, err error) {
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
			unread = errors.Join(unread, fmt.Errorf("block %d of it: %w", blocks, err))
			continue
		}
		pool.AddCert(cert)
		added++
	}
	switch {
	case added == 0:
		return nil, errors.Join(errNoCertificate, unread)
	case blocks != begun || isHalf(bundle):
		return nil, errHalf
	}
	return unread, nil
}

// isHalf reports whether what is behind the last block is, or begins, a part of one.
func isHalf(behind []byte) bool {
	line := behind[bytes.LastIndexByte(behind, '\n')+1:] // which a comment ends
	return bytes.Contains(behind, []byte("-----")) || len(line) > 0 && len(bytes.Trim(line, "-")) == 0
}
