// Package convert turns Kubernetes objects into topology's small types.
//
// It is pure, keeps nothing of an object but what routing reads, and trusts no
// object: what one says wrongly becomes a Problem on the result, and the rest
// of it goes on.
package convert
