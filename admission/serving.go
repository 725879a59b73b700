package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gridmesh/gridmesh/admission/certs"
	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/kube/objects"
)

// CertsKind is the Secret with the certificate.
func CertsKind(namespace string) objects.Kind {
	return objects.Kind{Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Kind: "Secret", Namespace: namespace, Name: names.AdmissionCerts}
}

// PruneCerts leaves of the Secret what who shows the certificate needs.
func PruneCerts(obj map[string]any) {
	Prune(obj)
	if data, ok := obj["data"].(map[string]any); ok {
		for key := range data {
			if key != certs.KeyCert && key != certs.KeyKey {
				delete(data, key)
			}
		}
	}
}

// Serving is the certificate that a replica shows: that of the Secret, from one
// handshake to the next. What cannot be used changes nothing.
type Serving struct {
	objects   Mirror
	namespace string
	log       *slog.Logger
	seen      [2][]byte // of the goroutine of Run
	current   atomic.Pointer[tls.Certificate]
}

// NewServing shows the certificate of the Secret in a namespace.
func NewServing(m Mirror, namespace string, log *slog.Logger) *Serving {
	return &Serving{objects: m, namespace: namespace, log: log}
}

// Run follows the Secret until ctx ends.
func (s *Serving) Run(ctx context.Context) error {
	for {
		s.take(certs.Data(s.objects.Get("Secret", s.namespace, names.AdmissionCerts)))
		select {
		case <-ctx.Done():
			return nil
		case <-s.objects.Wake():
		}
	}
}

// take takes over what the Secret has. Of what is wrong with it, it says nothing that is
// in it.
func (s *Serving) take(data map[string][]byte) {
	seen := [2][]byte{data[certs.KeyCert], data[certs.KeyKey]}
	if bytes.Equal(seen[0], s.seen[0]) && bytes.Equal(seen[1], s.seen[1]) {
		return
	}
	s.seen = seen
	pair, err := certs.Load(seen[0], seen[1])
	if err != nil {
		s.log.Error("keeping the last good certificate", obs.KeyErr, fmt.Errorf("secret %s: %w", names.AdmissionCerts, err))
		return
	}
	s.current.Store(&pair)
	s.log.Info("a certificate is shown from now on", obs.KeyExpires, pair.Leaf.NotAfter)
}

var (
	errNoCertificate = errors.New("no certificate was made yet")
	errExpired       = errors.New("the certificate has expired")
)

// TLS returns a server's configuration that shows the newest certificate.
func (s *Serving) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if c := s.current.Load(); c != nil {
				return c, nil
			}
			return nil, errNoCertificate
		},
	}
}

// Expires is when the certificate that is shown ends; zero where there is none.
func (s *Serving) Expires() time.Time {
	if c := s.current.Load(); c != nil {
		return c.Leaf.NotAfter
	}
	return time.Time{}
}

// Err is nil while a certificate is shown that is good: it suits a readiness check.
func (s *Serving) Err() error {
	switch expires := s.Expires(); {
	case expires.IsZero():
		return errNoCertificate
	case time.Now().After(expires):
		return errExpired
	}
	return nil
}
