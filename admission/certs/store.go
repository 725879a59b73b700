package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"slices"
	"time"
)

// The keys of the Secret. The first two are those of a Secret of the type
// kubernetes.io/tls, as programs look for them.
const (
	KeyCert     = "tls.crt"
	KeyKey      = "tls.key"
	KeyCA       = "ca.crt" // authorities that may be met: of the pair that serves, first, and of those before
	KeyNextCert = "next.crt"
	KeyNextKey  = "next.key"
	KeyNextCA   = "next-ca.crt"
)

// mostOld is how many authorities of before are kept: of rotations that follow each
// other faster than certificates end, as where hosts change.
const mostOld = 4

// Stored is what the Secret holds. A part that is not there, or that is broken, is empty.
type Stored struct {
	Now, Next Pair
	Old       []byte // authorities of pairs before
}

// Decode reads the data of the Secret.
func Decode(data map[string][]byte) Stored {
	s := Stored{
		Now:  Pair{Cert: data[KeyCert], Key: data[KeyKey]},
		Next: Pair{CA: data[KeyNextCA], Cert: data[KeyNextCert], Key: data[KeyNextKey]},
	}
	for i, ca := range parse(data[KeyCA]) {
		if i == 0 {
			s.Now.CA = encode(blockCert, ca.Raw)
		} else {
			s.Old = append(s.Old, encode(blockCert, ca.Raw)...)
		}
	}
	return s
}

// Encode is the data of the Secret. A key whose value is nil is not to be there.
func (s Stored) Encode() map[string][]byte {
	return map[string][]byte{
		KeyCert: s.Now.Cert, KeyKey: s.Now.Key, KeyCA: slices.Concat(s.Now.CA, s.Old),
		KeyNextCert: s.Next.Cert, KeyNextKey: s.Next.Key, KeyNextCA: s.Next.CA,
	}
}

// Bundle is what an API server is to believe: each authority that a replica may be met
// with now, and the next one.
func (s Stored) Bundle(now time.Time) []byte {
	var list []*x509.Certificate
	for _, pem := range [][]byte{s.Now.CA, s.Next.CA, s.Old} {
		for _, ca := range parse(pem) {
			known := slices.ContainsFunc(list, func(c *x509.Certificate) bool { return bytes.Equal(c.Raw, ca.Raw) })
			if !known && now.Before(ca.NotAfter) {
				list = append(list, ca)
			}
		}
	}
	var out []byte
	for _, ca := range list {
		out = append(out, encode(blockCert, ca.Raw)...)
	}
	return out
}

// Expires is when the certificate that serves ends; zero where there is none.
func (s Stored) Expires() time.Time {
	leaf, err := s.Now.leaf()
	if err != nil {
		return time.Time{}
	}
	return leaf.NotAfter
}

// promote makes the next pair the one that serves.
func (s Stored) promote(now time.Time) Stored {
	var old []byte
	kept := 0
	for _, ca := range parse(slices.Concat(s.Now.CA, s.Old)) {
		if now.Before(ca.NotAfter) && kept < mostOld {
			old = append(old, encode(blockCert, ca.Raw)...)
			kept++
		}
	}
	return Stored{Now: s.Next, Old: old}
}

// Data reads the data of a Secret that came as JSON. What is not base64 is not there.
func Data(obj map[string]any) map[string][]byte {
	in, _ := obj["data"].(map[string]any)
	out := map[string][]byte{}
	for key, v := range in {
		text, _ := v.(string)
		if value, err := base64.StdEncoding.DecodeString(text); err == nil && len(value) > 0 {
			out[key] = value
		}
	}
	return out
}
