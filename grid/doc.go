// Package grid carries out what grid/plan decides: it applies, adopts, marks,
// releases and removes the children of grids, and writes their status, their
// revisions and Events.
//
// It is level-triggered: an index of the world follows a mirror of it, every
// grid that a change concerns is planned anew, and what differs is carried
// out. A world in which nothing changed costs no write.
package grid
