package nft

import (
	"errors"
	"fmt"
	"syscall"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Follower knows which transactions of nftables had nothing of ours: others may
// write all the time. The kernel tells of each what it changed, and then its
// number. It has one owner, and runs nothing of its own.
type Follower struct {
	conn     *nl.Conn
	raw      syscall.RawConn
	concerns func(nl.Message) bool
	buf      []byte

	clean   uint32 // after this generation, and until last, was nothing of ours
	last    uint32
	touched bool // something of ours is in the transaction that is being told
	lost    bool // what was told is lost, and more may be until all that waits is taken
	drained bool // and since then all that waited was taken: the next number is after the loss
}

// followerMessage bounds what the kernel tells at a time: NLMSG_GOODSIZE, and
// a single rule or element is smaller.
const followerMessage = 64 << 10

// Follow begins after the present generation.
func Follow(s *Session, concerns func(nl.Message) bool) (*Follower, error) {
	conn, err := nl.Dial(unix.NETLINK_NETFILTER, &nl.Config{Groups: 1 << (NotifyGroup - 1)})
	if err != nil {
		return nil, fmt.Errorf("follow nftables: %w", err)
	}
	_ = conn.SetReadBuffer(netlinkBuffer) // refused without privileges; more is lost then, and read instead
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("follow nftables: %w", err), conn.Close())
	}
	gen, err := s.Generation()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &Follower{conn: conn, raw: raw, concerns: concerns, buf: make([]byte, followerMessage), clean: gen, last: gen}, nil
}

// NotifyGroup is NFNLGRP_NFTABLES of linux/netfilter/nfnetlink.h.
const NotifyGroup = 7

// After returns the newest generation that differs from gen by nothing of ours.
// Without a Follower that is gen.
func (f *Follower) After(gen uint32) uint32 {
	if f == nil {
		return gen
	}
	f.drain()
	return f.after(gen)
}

func (f *Follower) after(gen uint32) uint32 {
	if !f.lost && gen != 0 && gen-f.clean <= f.last-f.clean {
		return f.last
	}
	return gen
}

// Close ends it.
func (f *Follower) Close() {
	if f != nil {
		_ = f.conn.Close()
	}
}

// drain takes what was told until now. Whoever tells faster than this reads is
// left for the next time.
func (f *Follower) drain() {
	const most = 10000
	for range most {
		var n int
		var err error
		failed := f.raw.Read(func(fd uintptr) bool {
			n, _, err = unix.Recvfrom(int(fd), f.buf, unix.MSG_DONTWAIT|unix.MSG_TRUNC)
			return true
		})
		switch {
		case failed != nil:
			f.lose()
			return
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOBUFS), err == nil && n > len(f.buf):
			f.lose()
		case err != nil: // EAGAIN: that was all
			f.drained = f.lost
			return
		default:
			f.takeAll(f.buf[:n])
		}
	}
}

func (f *Follower) takeAll(raw []byte) {
	msgs, err := syscall.ParseNetlinkMessage(raw)
	if err != nil {
		f.lose()
		return
	}
	for _, m := range msgs {
		f.take(nl.Message{Header: nl.Header{Type: nl.HeaderType(m.Header.Type)}, Data: m.Data})
	}
}

// lose says that something was not told. Numbers that waited before it was lost
// are told after the kernel says so: until all is taken they prove nothing, and
// only who knows the generation after that, by a read, goes on from there.
func (f *Follower) lose() { f.lost, f.drained = true, false }

// take takes one message. A number that is not the next one is after what was lost.
func (f *Follower) take(m nl.Message) {
	if m.Header.Type != Message(unix.NFT_MSG_NEWGEN) {
		f.touched = f.touched || f.concerns(m)
		return
	}
	gen, err := generationOf(m)
	if err != nil {
		f.lose()
		return
	}
	if f.lost || f.touched || gen != f.last && gen != NextGeneration(f.last) {
		f.clean = gen
	}
	f.last, f.touched = gen, false
	if f.drained {
		f.lost, f.drained = false, false
	}
}
