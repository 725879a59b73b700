package capture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// watchPause is how long Watch rests after each wake-up: the first change is
// told at once, and of many at once nobody needs each.
const watchPause = 20 * time.Millisecond

// routeGroups are the groups of rtnetlink that are listened to.
var routeGroups = groups(
	unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
	unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
)

func groups(list ...int) (mask uint32) {
	for _, g := range list {
		mask |= 1 << (g - 1)
	}
	return mask
}

// Watch fills the returned one-slot channel whenever something changed that
// RefreshBridges or Repair may have to follow: links and addresses (a pod
// network's bridge comes with the first pod, and takes the MAC of its lowest
// port unless somebody gave it one), rules of routing, our route, and our
// tables of nftables, whoever wrote there. What is lost on the way, under load,
// is a wake-up too, and so is the beginning: what changed before Watch is for
// who was waked to read. The channel is closed when nothing of Watch runs any more:
// ctx has ended, or the kernel tells nothing any more.
func Watch(ctx context.Context) (<-chan struct{}, error) {
	route, err := nl.Dial(unix.NETLINK_ROUTE, &nl.Config{Groups: routeGroups})
	if err != nil {
		return nil, fmt.Errorf("watch links, addresses, rules and routes: %w", err)
	}
	nft, err := nl.Dial(unix.NETLINK_NETFILTER, &nl.Config{Groups: groups(nft.NotifyGroup)})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch nftables: %w", err), route.Close())
	}
	wake := make(chan struct{}, 1)
	wake <- struct{}{}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { defer cancel(); receive(ctx, route, ofRouting, wake) })
	wg.Go(func() { defer cancel(); receive(ctx, nft, ofOurTables, wake) })
	go func() {
		<-ctx.Done()
		_, _ = route.Close(), nft.Close() // which ends receive
		wg.Wait()
		close(wake)
	}()
	return wake, nil
}

// receive fills wake for what concerns us, until conn is closed.
func receive(ctx context.Context, conn *nl.Conn, concerns func(nl.Message) bool, wake chan<- struct{}) {
	for ctx.Err() == nil {
		msgs, err := conn.Receive()
		concerned := errors.Is(err, unix.ENOBUFS) // some were lost
		if err != nil && !concerned {
			return // closed, or of no more use
		}
		for _, m := range msgs {
			concerned = concerned || concerns(m)
		}
		if !concerned {
			continue
		}
		select {
		case wake <- struct{}{}:
		default:
		}
		select {
		case <-time.After(watchPause):
		case <-ctx.Done():
		}
	}
}

// ofRouting takes every link, address and rule, and of routes our own kind
// alone: "local default". Nodes have many others.
func ofRouting(m nl.Message) bool {
	if m.Header.Type != unix.RTM_NEWROUTE && m.Header.Type != unix.RTM_DELROUTE {
		return true
	}
	const dstLenAt, typeAt = 1, 7 // of struct rtmsg in linux/rtnetlink.h
	return len(m.Data) > typeAt && m.Data[dstLenAt] == 0 && m.Data[typeAt] == unix.RTN_LOCAL
}

// ofOurTables takes what is about a table of ours: in every message about a table
// or about something in it, the first attribute names it. Who is over its share
// is for Clients alone to say, which says it all the time, and lets go of it.
func ofOurTables(m nl.Message) bool {
	attrs, err := nft.Attributes(m)
	if err != nil || m.Header.Type == nft.Message(unix.NFT_MSG_NEWGEN) {
		return false
	}
	ours, set := false, ""
	for attrs.Next() {
		switch attrs.Type() {
		case unix.NFTA_TABLE_NAME: // and NFTA_SET_ELEM_LIST_TABLE
			ours = attrs.String() == rules.Name
		case unix.NFTA_SET_ELEM_LIST_SET:
			set = attrs.String()
		}
	}
	family := nftables.TableFamily(m.Data[0])
	if !ours || family != nftables.TableFamilyINet && family != nftables.TableFamilyBridge {
		return false
	}
	if !slices.Contains(clientSets, set) {
		return true
	}
	switch m.Header.Type {
	case nft.Message(unix.NFT_MSG_DELSETELEM):
		return false
	case nft.Message(unix.NFT_MSG_NEWSETELEM):
		return slices.ContainsFunc(nft.ElementsOf(m), strangeClient)
	}
	return true
}

// strangeClient reports whether an element of who is over its share is none that
// Clients writes: it stays, or stands for all.
func strangeClient(e nft.Element) bool {
	return e.CatchAll || e.Odd || e.Timeout == 0 || e.Timeout > overTimeout
}

var clientSets = bothOf(rules.Over)
