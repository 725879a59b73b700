// Package objects reads and writes Kubernetes objects of some kinds,
// unstructured: a Mirror of all of them that knows which changed and writes
// them (server-side apply, merge patch, status, delete), and List and Merge
// for who needs them once.
package objects
