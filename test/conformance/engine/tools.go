//go:build tools

// Package engine names what is built of an engine that enforces NetworkPolicies:
// the module's file of versions stays as it is by it.
package engine

import _ "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router"
