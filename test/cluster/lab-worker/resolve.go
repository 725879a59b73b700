package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
)

// resolve prints what names resolve to by Go's own resolver, as
// test/resolvers/resolve.c does by a C library's.
func resolve(ctx context.Context, names []string) {
	r := &net.Resolver{PreferGo: true}
	for _, name := range names {
		addrs, err := r.LookupHost(ctx, name)
		if err != nil {
			fmt.Printf("%s: %v\n", name, err)
			continue
		}
		slices.Sort(addrs)
		fmt.Println(name, strings.Join(addrs, " "))
	}
}

// nslookup prints what a name resolves to by one server alone. It fails where
// that refuses, does not answer, or has no address.
func nslookup(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%q: give a name and a server\n%s", args, usage)
	}
	name, server := args[0], net.JoinHostPort(args[1], "53")
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server)
	}}
	addrs, err := r.LookupHost(ctx, strings.TrimSuffix(name, ".")+".")
	if err != nil {
		return err
	}
	slices.Sort(addrs)
	fmt.Printf("Server: %s\nName: %s\n", server, name)
	for _, addr := range addrs {
		fmt.Println("Address:", addr)
	}
	return nil
}
