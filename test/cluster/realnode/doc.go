// Package realnode is a node of the test cluster with the real kubelet and
// containerd: a machine made of namespaces, with a network, a host name,
// processes and file systems of its own.
//
// Its first process is the whole machine: killed, it takes every process,
// mount and network namespace with it, as a power cut does, and what was on
// its disk is there at the next boot. Control groups alone stay; package
// cgroup removes them.
//
// Images come from this machine's files, without a registry. Pods hang on the
// bridge cni0 with addresses of the Node's podCIDRs.
package realnode
