// Package health tests node health in a real cluster: kube-controller-manager and the API
// server are real, and nodes lose their uplinks, their peers or their lives.
package health
