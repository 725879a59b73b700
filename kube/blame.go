package kube

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrSlow means that somebody is there, and did not answer in time.
var ErrSlow = errors.New("the API server takes long")

// Ask asks the API server whether it is there and takes requests from us. What
// it says is a Blame. One that takes a new connection and does not answer is slow.
func (c *Client) Ask(ctx context.Context) error {
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(is httptrace.GotConnInfo) {
		connected.Store(connected.Load() || !is.Reused)
	}})
	err := c.Typed.Discovery().RESTClient().Get().AbsPath("/readyz").Do(traced).Error()
	if err == nil || apierrors.IsForbidden(err) {
		return nil
	}
	if connected.Load() {
		err = Slow(err)
	}
	return c.Blame(err)
}

// Slow is the error of a request to an API server that is known to be there: where
// time was up it is ErrSlow, too.
func Slow(err error) error {
	if isTimeout(err) {
		return fmt.Errorf("%w: %w", ErrSlow, err)
	}
	return err
}

// Blame says of a request that failed whom it was sent to, by which
// configuration, and what to check. It is nil for nil.
func (c *Client) Blame(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; the API server is %s, of %s: %s%s", firstLine{err}, c.host(), c.config, c.cure(err), c.behindProxy(err))
}

// firstLine is an error as it begins: client-go explains some at length.
type firstLine struct{ error }

// Error implements error.
func (f firstLine) Error() string {
	line, _, _ := strings.Cut(f.error.Error(), "\n")
	return line
}

// Unwrap is for errors.Is.
func (f firstLine) Unwrap() error { return f.error }

// behindProxy is what else may be why nobody answers at an address: nothing, unless it
// looks as if it were of a Service.
func (c *Client) behindProxy(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) || !firstOfRange(c.host()) {
		return ""
	}
	return "; the address looks like the ClusterIP of the Service kubernetes, which is there only where a proxy serves it: give an address of the API server itself, as kubectl get endpointslices kubernetes has it"
}

// cure is what to check where a request failed. One without TLS, to a server that has it, is refused by words
// alone; and at port 80, where a server without a scheme and a port leads, no API server is.
func (c *Client) cure(err error) string {
	u, bad := url.Parse(c.host())
	if bad != nil || u.Scheme != "http" {
		return cure(err)
	}
	port := cmp.Or(u.Port(), "80")
	if !apierrors.IsBadRequest(err) && (port != "80" || isStatus(err)) {
		return cure(err)
	}
	if port == "80" {
		port = "6443, or the port that it has"
	}
	return fmt.Sprintf("it is asked by http://, as the address there says, or has no https:// before it; an API server speaks HTTPS: write clusters[].cluster.server there as https://%s:%s",
		strings.TrimSuffix(u.Host, ":"+u.Port()), port)
}

// isStatus reports whether the error is an API server's word, and not that of whoever answers there.
func isStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// cure is what an error itself says of it.
func cure(err error) string {
	var name *net.DNSError
	var status apierrors.APIStatus
	switch {
	case apierrors.IsUnauthorized(err):
		return "it does not know who asks; check that the credentials there are this cluster's, and have not expired"
	case apierrors.IsForbidden(err):
		return "it does not permit that; give the user or ServiceAccount the rights (deploy/ has those of each program)"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "it speaks HTTP there and not HTTPS; check the address and the port"
	case apierrors.IsNotFound(err):
		return "it does not know that; install what is missing (the CRDs of grids: gridmesh-controller --install-crds), or is it another cluster?"
	case apierrors.IsConflict(err):
		return "what was to be changed has changed meanwhile; look at it, and ask again"
	case isTLS(err):
		return "its certificate is not trusted; check certificate-authority there, that the certificate names this address, and the clock"
	case errors.As(err, &status) && status.Status().Code >= http.StatusInternalServerError:
		return "it is there and cannot serve; see its log, and whether its etcd is well"
	case errors.As(err, &status):
		return "it refuses the request; is this the right cluster, and of a version that is supported?"
	case strings.Contains(err.Error(), "getting credentials: exec:"):
		return "the program that gives the credentials does not run; install it, or correct users[].user.exec.command there"
	case errors.As(err, &name):
		return "the name does not resolve here; check the address, and this host's DNS"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there; check the address and the port, and that the API server runs"
	case errors.Is(err, ErrSlow):
		return "it is there; give it more time, and see its load and its etcd"
	case isTimeout(err):
		return "nothing answers; check the address, and routes and firewalls on the way there"
	}
	return "check the address, the way there, and that the API server runs"
}

// isTLS reports whether the peer's certificate, or that it has one, is at fault.
func isTLS(err error) bool {
	var unverified *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var header tls.RecordHeaderError
	return errors.As(err, &unverified) || errors.As(err, &unknown) || errors.As(err, &host) || errors.As(err, &invalid) || errors.As(err, &header)
}

func isTimeout(err error) bool {
	var timeout net.Error
	var nothing stalled
	return errors.As(err, &nothing) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
