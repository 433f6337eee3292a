package egress_test

import (
	"net/netip"
	"testing"

	"github.com/agentbus/agentbus/pkg/egress"
)

// FuzzCheck compares Check with a second opinion: the predicates of net/netip and the prefixes that those do not know.
// Whatever the opinion calls local must be refused, and what differs only in being mapped must be judged alike.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{"127.0.0.1", "8.8.8.8", "::ffff:10.0.0.1", "64:ff9b::a9fe:a9fe", "2606:4700::1111", "100.100.100.200"} {
		f.Add(netip.MustParseAddr(s).AsSlice())
	}
	local := []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
		netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
		netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("2002::/16"),
		netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("100::/64"), netip.MustParsePrefix("fec0::/10"),
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		addr, ok := netip.AddrFromSlice(raw)
		if !ok {
			return
		}
		plain := addr.Unmap()
		second := !plain.IsGlobalUnicast() || plain.IsPrivate()
		for _, p := range local {
			second = second || p.Contains(plain)
		}
		if second && egress.Check(addr) == nil {
			t.Errorf("Check(%s): allowed, but it is local", addr)
		}
		if plain.Is4() && (egress.Check(addr) == nil) != (egress.Check(netip.AddrFrom16(plain.As16())) == nil) {
			t.Errorf("Check(%s) differs from its mapped form", addr)
		}
	})
}

// FuzzParseAllow holds that an entry which parses as an address allows that address and never panics.
func FuzzParseAllow(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8", "[fd00::1]:80", "wiki.internal:8080", "127.1", "::ffff:1.2.3.4", "a:b:c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		_, err := egress.ParseAllow([]string{entry})
		if _, bad := netip.ParseAddr(entry); bad == nil && err != nil {
			t.Errorf("ParseAllow(%q): %v, but it is an address", entry, err)
		}
	})
}
