// Package dump reads lists from the kernel over netlink, and says where one is
// torn: something changed while it was told (NLM_F_DUMP_INTR). The libraries pass
// over that.
package dump
