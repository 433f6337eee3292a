package egress_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"testing"
)

// serveDNS starts a name server on loopback that knows names (each ends with a dot), and returns a resolver that asks it.
func serveDNS(t *testing.T, names map[string][]netip.Addr) *net.Resolver {
	t.Helper()
	return serveDNSFunc(t, func(name string) []netip.Addr { return names[name] })
}

func serveDNSFunc(t *testing.T, lookup func(name string) []netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	go func() { // ends when the connection is closed
		defer close(done)
		query := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			if answer := answerDNS(query[:n], lookup); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// answerDNS answers a query of one question (RFC 1035), for A and AAAA.
func answerDNS(query []byte, lookup func(name string) []netip.Addr) []byte {
	const header = 12
	if len(query) < header {
		return nil
	}
	var name bytes.Buffer
	at := header
	for at < len(query) && query[at] != 0 {
		end := at + 1 + int(query[at])
		if end > len(query) {
			return nil
		}
		name.Write(bytes.ToLower(query[at+1 : end]))
		name.WriteByte('.')
		at = end
	}
	question := query[header : at+5]
	kind := binary.BigEndian.Uint16(query[at+1:])
	var records []byte
	count := 0
	for _, addr := range lookup(name.String()) {
		if addr.Is4() != (kind == 1) || addr.Is6() != (kind == 28) {
			continue
		}
		count++
		records = append(records, 0xc0, header)                                   // the name of the question
		records = append(records, byte(kind>>8), byte(kind), 0, 1, 0, 0, 0, 0, 0) // class IN, lives 0 s
		records = append(records, byte(addr.BitLen()/8))
		records = append(records, addr.AsSlice()...)
	}
	answer := []byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, byte(count), 0, 0, 0, 0}
	return append(append(answer, question...), records...)
}

func portText(port uint16) string { return strconv.Itoa(int(port)) }
