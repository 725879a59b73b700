// Package links reads the network interfaces of a node over netlink, as few of
// their attributes as the capture needs.
package links
