package nft

import (
	"testing"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Whatever is told of elements, it is read to its end, and what has no key is
// odd or stands for all.
func FuzzElements(f *testing.F) {
	element := told(unix.NFT_MSG_NEWSETELEM, setAttributes(&nftables.Set{Table: &nftables.Table{Name: "gridmesh"}, Name: "serve4"})...).Data
	f.Add(element)
	f.Add(append(Header(nftables.TableFamilyINet), 0x14, 0, 3, 0x80, 0x10, 0, 1, 0x80, 0x0c, 0, 1, 0x80, 8, 0, 1, 0, 10, 0, 0, 1))
	f.Add([]byte{1, 0, 0, 0, 8, 0, 3, 0x80, 4, 0, 1, 0x80})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, e := range ElementsOf(nl.Message{Data: data}) {
			if len(e.Key) == 0 && !e.Odd && !e.CatchAll {
				t.Errorf("%+v", e)
			}
		}
	})
}

// Whatever is told of chains, each has a table.
func FuzzChains(f *testing.F) {
	f.Add(told(unix.NFT_MSG_NEWCHAIN, nl.Attribute{Type: unix.NFTA_CHAIN_TABLE, Data: []byte("nat\x00")}).Data)
	f.Add(append(Header(nftables.TableFamilyINet), 12, 0, 4, 0x80, 8, 0, 1, 0, 0, 0, 0, 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := chainOf(nl.Message{Data: data}); err == nil && c.Table == nil {
			t.Errorf("%+v", c)
		}
	})
}
