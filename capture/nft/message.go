package nft

import (
	"encoding/binary"
	"fmt"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Message is the type of a message of nftables in nfnetlink.
func Message(msg int) nl.HeaderType {
	return nl.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | msg)
}

// Header is the header of every message of nfnetlink: family, version 0, and
// the id of a resource, of which there is none.
func Header(family nftables.TableFamily) []byte { return []byte{byte(family), 0, 0, 0} }

const headerLen = 4

// Attributes decodes what follows the header of a message.
func Attributes(m nl.Message) (*nl.AttributeDecoder, error) {
	if len(m.Data) < headerLen {
		return nil, fmt.Errorf("nftables: a message of %d bytes", len(m.Data))
	}
	attrs, err := nl.NewAttributeDecoder(m.Data[headerLen:])
	if err != nil {
		return nil, fmt.Errorf("nftables: %w", err)
	}
	attrs.ByteOrder = binary.BigEndian
	return attrs, nil
}

// Batch is a transaction of one command, to which it adds what it is about.
func Batch(command nl.Message, family nftables.TableFamily, attrs []nl.Attribute) ([]nl.Message, error) {
	data, err := nl.MarshalAttributes(attrs)
	if err != nil {
		return nil, err
	}
	command.Data = append(Header(family), data...)
	// The resource of a batch is the subsystem that it is for.
	bound := []byte{unix.AF_UNSPEC, 0, 0, unix.NFNL_SUBSYS_NFTABLES}
	return []nl.Message{
		{Header: nl.Header{Type: unix.NFNL_MSG_BATCH_BEGIN, Flags: nl.Request}, Data: bound},
		command,
		{Header: nl.Header{Type: unix.NFNL_MSG_BATCH_END, Flags: nl.Request}, Data: bound},
	}, nil
}
