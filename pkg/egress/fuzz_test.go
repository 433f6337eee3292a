package egress_test

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
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

// FuzzURL holds that no spelling of an address gets past the guard as a name: what a resolver of the C library would
// read as a number is refused, unless it is written in full, and then the address itself is judged.
func FuzzURL(f *testing.F) {
	for _, s := range []string{
		"http://127.1/", "http://2130706433/", "http://0x7f.1/", "http://017700000001/", "http://0x7f000001/", "http://127.0.0.1./",
		"http://[::ffff:7f00:1]/", "http://[fe80::1%25eth0]/", "http://user@127.0.0.1", "https://allowed.com@evil", "http://evil#@allowed.com",
		"http:127.0.0.1", "http:///x", "http://\u0031\u3002\u0031/", "http://127.0.0.1%00.example.com/", "http://1.2.3.4.5/", "http://0X7F.0.0.1/",
		"http://a\\@b/", "HTTP://LOCALHOST:80/", "http://[::]:80", "http://0/", "http://08.08.08.08/", "http://example.com:0443/",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if err != nil || egress.CheckURL(u) != nil {
			return
		}
		host := u.Hostname()
		if u.Scheme != "http" && u.Scheme != "https" || u.User != nil || host == "" {
			t.Fatalf("%q: the guard lets it through", text)
		}
		if port := u.Port(); port != "" && strings.TrimLeft(port, "0") != "80" && strings.TrimLeft(port, "0") != "443" {
			t.Fatalf("%q: the guard lets port %s through", text, port)
		}
		if _, err := netip.ParseAddr(host); err != nil && isNumberOfC(host) {
			t.Fatalf("%q: %q is an address to the C library, and a name to the guard", text, host)
		}
	})
}

// isNumberOfC reports whether inet_aton would read host: one to four parts, each decimal, octal or hexadecimal.
func isNumberOfC(host string) bool {
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	if len(parts) > 4 {
		return false
	}
	for _, part := range parts {
		digits, base := part, 10
		if lower := strings.ToLower(part); strings.HasPrefix(lower, "0x") {
			digits, base = part[2:], 16
			if digits == "" {
				continue // "0x" is zero to some
			}
		} else if len(part) > 1 && part[0] == '0' {
			base = 8
		}
		if _, err := strconv.ParseUint(digits, base, 64); err != nil {
			return false
		}
	}
	return true
}
