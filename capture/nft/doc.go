// Package nft speaks to nftables over netlink: a session that survives errors,
// what google/nftables does not read or cannot, and rules as the kernel takes
// them. What is in our tables is the capture's to say.
package nft
