// Package sysctl sets values of /proc/sys to 0 and puts them back: it writes down
// what they were, so that who removes the capture need not be who set them.
package sysctl
