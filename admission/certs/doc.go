// Package certs makes the certificate by which an API server knows the webhook, and
// decides when there is to be another.
//
//	pair.go    a certificate with its key and its authority: made, read, judged
//	store.go   what is kept of them in a Secret
//	plan.go    what is to be done next
//
// Each certificate has an authority of its own, whose key is thrown away as soon as it
// has signed: nobody can sign a second one with it, and there is one kind of rotation
// (docs/adr/0017-certificates-of-the-webhook.md). A rotation is three writes, each of
// which may be the last before a crash:
//
//	the next pair is written to the Secret, beside the one that serves
//	its authority joins that one's in the caBundle of the webhook's configuration
//	once that has been there for a while, the next pair becomes the one that serves
//
// The authority of the one before stays in the bundle until it expires: a replica that
// has not heard of the change goes on being believed.
//
// Nothing here talks to anybody. The clock is an argument.
package certs
