//go:build tools

// Package e2e names what is built of Kubernetes' own tests: the module's file
// of versions stays as it is by it.
package e2e

import (
	_ "k8s.io/kubernetes/test/e2e"
	_ "k8s.io/kubernetes/test/images/agnhost"
	_ "k8s.io/kubernetes/test/images/regression-issue-74839"
)
