// Package plan decides what a grid wants in every unit: which child, under
// which name, with which content, and what becomes of children whose unit is
// gone. It is pure: objects in, actions out.
//
// Objects are unstructured, as the user wrote them, so that fields of newer
// Kubernetes versions reach the children.
package plan
