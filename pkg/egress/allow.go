package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// AllowList is what an operator lets through though it is not public. The zero value allows nothing.
type AllowList struct{ entries []allowEntry }

// allowEntry has a host or a prefix.
type allowEntry struct {
	host   string
	prefix netip.Prefix
	port   uint16 // 0 = the ports that are allowed anyway
}

// ParseAllow reads entries of the forms "10.1.0.0/16", "10.1.2.3", "10.1.2.3:8080", "[fd00::1]:8080", "wiki.internal"
// and "wiki.internal:8080". A host is compared with the host of the URL, without case, and is then trusted whatever it
// resolves to. An entry with a port allows that port in addition to the usual ones.
func ParseAllow(list []string) (AllowList, error) {
	var allow AllowList
	for _, text := range list {
		entry, err := parseEntry(text)
		if err != nil {
			return AllowList{}, err
		}
		allow.entries = append(allow.entries, entry)
	}
	return allow, nil
}

// With returns a with one entry more.
func (a AllowList) With(text string) (AllowList, error) {
	entry, err := parseEntry(text)
	if err != nil {
		return AllowList{}, err
	}
	return AllowList{entries: append(slices.Clip(a.entries), entry)}, nil
}

func parseEntry(text string) (allowEntry, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		if prefix.Addr().Is4In6() {
			return allowEntry{}, fmt.Errorf("allowed address %q: write it as IPv4", text)
		}
		return allowEntry{prefix: prefix.Masked()}, nil
	}
	host, port := text, uint16(0)
	if h, p, err := net.SplitHostPort(text); err == nil {
		number, err := strconv.ParseUint(p, 10, 16)
		if err != nil || number == 0 {
			return allowEntry{}, fmt.Errorf("allowed address %q: %q is not a port", text, p)
		}
		host, port = h, uint16(number)
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		addr = addr.Unmap().WithZone("")
		return allowEntry{prefix: netip.PrefixFrom(addr, addr.BitLen()), port: port}, nil
	}
	if !isHostName(host) || isShorthandAddress(host) {
		return allowEntry{}, fmt.Errorf("allowed address %q is not a host, IP address or CIDR", text)
	}
	return allowEntry{host: canonicalHost(host), port: port}, nil
}

func isHostName(host string) bool {
	return host != "" && len(host) <= 253 && strings.IndexFunc(host, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_'
	}) < 0
}

func canonicalHost(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// has reports whether a connection to addr and port, made for host, is allowed. An entry without a port holds for the
// usual ports.
func (a AllowList) has(host string, addr netip.Addr, port uint16, usual func(uint16) bool) bool {
	addr, host = addr.WithZone(""), canonicalHost(host)
	for _, e := range a.entries {
		if !e.opens(port, usual) {
			continue
		}
		if e.host != "" && e.host == host || e.prefix.IsValid() && e.prefix.Contains(addr) {
			return true
		}
	}
	return false
}

func (e allowEntry) opens(port uint16, usual func(uint16) bool) bool {
	if e.port == 0 {
		return usual(port)
	}
	return e.port == port
}

// hasPort reports whether an entry opens port for host before anything is resolved. Entries for addresses open it for
// any name too: the address is checked when it is known.
func (a AllowList) hasPort(host string, port uint16) bool {
	for _, e := range a.entries {
		if e.port == port && (e.prefix.IsValid() || e.host == canonicalHost(host)) {
			return true
		}
	}
	return false
}
