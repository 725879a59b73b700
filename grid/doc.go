// Package grid carries out what grid/plan decides: it applies, adopts, marks
// and removes the children of grids.
//
// It is level-triggered: every pass plans the whole world from a mirror of it
// and carries out what differs. A world in which nothing changed costs no
// write.
package grid
