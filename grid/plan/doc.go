// Package plan decides what a grid wants in every unit: which child, under
// which name, with which content, and what becomes of children whose unit is
// gone. It is pure: objects and the time in, actions and a status out.
//
// Objects are unstructured, as the user wrote them, so that fields of newer
// Kubernetes versions reach the children. A grid's spec is decoded into the
// types of api/v1; its templates alone stay as they are.
//
// The files build on each other in this order, and never refer to a later one
// (a test holds them to it):
//
//	object.go    reading and copying unstructured objects
//	names.go     names of children, values of labels
//	kinds.go     the kinds of grids: the one table of what they make, and a world of them
//	waves.go     spec.rollout: sizes and order of waves
//	seen.go      times of a wall clock, by that of this process
//	fields.go    fields that do not exist, or hold another type
//	held.go      what a mirror holds of an object
//	drift.go     what a live object lacks of a wanted one
//	extra.go     what a live pod template has besides
//	fixed.go     fields that no update changes
//	decode.go    a grid and its templates
//	child.go     a child
//	orphan.go    what a grid that is no more has left
//	desired.go   a child as it is to be
//	units.go     the units that Nodes make up
//	step.go      actions, steps and plans
//	world.go     the index of all objects, and what changed
//	told.go      what whoever carries plans out tells the index
//	absent.go    keys and units that no node has
//	decide.go    the step of each unit
//	newcomers.go units that have just come
//	revision.go  ControllerRevisions, and rolling back to one
//	bears.go     of which template children were made
//	before.go    what units have that the change has not come to
//	bearers.go   which units bear which revision
//	front.go     where a rollout is
//	failed.go    units that stop a rollout, also out of sight
//	rollout.go   which changes wait for a later wave
//	begin.go     what a child begins with while the change is elsewhere
//	guard.go     children whose unit is gone
//	status.go    the status of a grid
//	plan.go      all of it: Index.Plan and All
//	ports.go     ports that an API server refuses
//	review.go    what is likely to be a mistake, for people
//	selects.go   Services that select no grid's pods
package plan
