package egress

import "net/netip"

// block is a range of addresses that does not belong to the public Internet, or should not be reached as if it did.
type block struct {
	prefix netip.Prefix
	what   string
}

// blocks lists the ranges of IPv4, and those within IPv6's global unicast space (IANA special-purpose registries).
// The rest of IPv6 is refused as a whole: see classify. The predicates of net/netip are not enough: they let pass
// 100.100.100.200, 192.0.0.192 and 64:ff9b::a9fe:a9fe, each the metadata service of some cloud.
var blocks = []block{
	{netip.MustParsePrefix("0.0.0.0/8"), "this machine"},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private network"},
	{netip.MustParsePrefix("100.64.0.0/10"), "a carrier's private network"},
	{netip.MustParsePrefix("127.0.0.0/8"), "this machine"},
	{netip.MustParsePrefix("168.63.129.16/32"), "a cloud's metadata service"},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address"},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private network"},
	{netip.MustParsePrefix("192.0.0.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.0.2.0/24"), "an address for documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a 6to4 relay"},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private network"},
	{netip.MustParsePrefix("198.18.0.0/15"), "a test network"},
	{netip.MustParsePrefix("198.51.100.0/24"), "an address for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "an address for documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address"},
	{netip.MustParsePrefix("2001::/23"), "a reserved address"}, // holds Teredo and ORCHID
	{netip.MustParsePrefix("2001:db8::/32"), "an address for documentation"},
	{netip.MustParsePrefix("2002::/16"), "a 6to4 tunnel"},
	{netip.MustParsePrefix("3fff::/20"), "an address for documentation"},
}

// globalIPv6 is all that IANA has opened for the public Internet. NAT64, unique local, link-local, multicast, loopback
// and IPv4-compatible addresses all lie outside.
var globalIPv6 = netip.MustParsePrefix("2000::/3")

// Check returns a *DeniedError when addr is not a public unicast address. IPv4-mapped addresses count as what they map
// to.
func Check(addr netip.Addr) error {
	if why := classify(addr); why != "" {
		return denied(addr.String(), "it is %s, not on the public Internet", why)
	}
	return nil
}

// classify says what addr is when it is not public, "" when it is.
func classify(addr netip.Addr) string {
	if !addr.IsValid() {
		return "no address"
	}
	addr = addr.Unmap().WithZone("") // a prefix contains no address with a zone
	if addr.Is6() && !globalIPv6.Contains(addr) {
		return "a local or reserved address"
	}
	for _, b := range blocks {
		if b.prefix.Contains(addr) {
			return b.what
		}
	}
	return ""
}
