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
