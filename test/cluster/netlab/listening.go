package netlab

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Listening are the addresses of TCP in a namespace that somebody listens on,
// sorted, each once: Envoy's threads have a socket each. One of IPv6 for IPv4
// alone is written as IPv4.
func (n *NS) Listening() (list []netip.AddrPort, err error) {
	err = n.Do(func() error {
		for _, file := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
			data, err := os.ReadFile(file)
			if os.IsNotExist(err) {
				continue // a kernel without IPv6
			}
			if err != nil {
				return err
			}
			found, err := listening(string(data))
			if err != nil {
				return fmt.Errorf("%s of namespace %s: %w", file, n.Name, err)
			}
			list = append(list, found...)
		}
		return nil
	})
	slices.SortFunc(list, netip.AddrPort.Compare)
	return slices.Compact(list), err
}

// listening reads a table of sockets as the kernel writes it.
func listening(table string) (list []netip.AddrPort, err error) {
	const address, state, listens = 1, 3, "0A" // columns, and TCP_LISTEN
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > state && f[state] == listens {
			at, err := kernelAddress(f[address])
			if err != nil {
				return nil, err
			}
			list = append(list, at)
		}
	}
	return list, nil
}

// kernelAddress reads "0100007F:2809": words of the machine's order, which is
// little endian wherever tests run, and a port.
func kernelAddress(text string) (netip.AddrPort, error) {
	words, number, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(words)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is no address: %w", text, err)
	}
	port, err := strconv.ParseUint(number, 16, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q has no port: %w", text, err)
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	ip, ok := netip.AddrFromSlice(raw)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", text)
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(port)), nil
}
