// Package egress is the guard that every outgoing request passes whose target a model, a user or a remote party chose:
// HTTP tools, webhooks, the registry of remote agents. It keeps such requests on the public Internet unless the
// operator allowed a target by name.
//
// What decides is the address that is about to be connected, after name resolution, on every connection of every
// redirect. So a name that changes its address between a check and its use gains nothing.
package egress

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// NoTimeout lets an exchange last: for streams, whose readers bound them by their context.
const NoTimeout = -1 * time.Nanosecond

// The defaults of Options.
const (
	DefaultTimeout      = 30 * time.Second
	DefaultMaxBody      = 4 << 20
	DefaultMaxRedirects = 5
)

// Options say what a client may reach. The zero value is strict and useful: https to public addresses, on the usual ports.
type Options struct {
	PlainHTTP    bool          // allow http:// in addition to https://
	Ports        []uint16      // ports that may be reached; none = 80 and 443
	AnyPort      bool          // every port may be: for targets that an operator chose
	Allow        AllowList     // what the operator lets through though Check denies it
	Timeout      time.Duration // of a whole exchange, redirects and body included; 0 = DefaultTimeout, or NoTimeout
	MaxBody      int64         // bytes of a response after decompression; 0 = DefaultMaxBody
	MaxRedirects int           // 0 = DefaultMaxRedirects, negative = none
	Resolver     *net.Resolver // nil = the system's
}

// DeniedError says that the guard stopped a request. It gives away no address that a name resolved to.
type DeniedError struct {
	Target string // host, or the part of the URL that is refused
	Reason string
}

// Error describes the refused target and the reason.
func (e *DeniedError) Error() string {
	return fmt.Sprintf("egress to %.100q is denied: %s", e.Target, e.Reason)
}

func denied(target, format string, args ...any) error {
	return &DeniedError{Target: target, Reason: fmt.Sprintf(format, args...)}
}

// NewClient returns a client whose every connection passes the guard. It keeps no cookies and ignores the proxies of
// the environment. A refused request fails with a *DeniedError in the chain; reading more than MaxBody of a response
// fails with ErrBodyTooLarge. On a redirect to another origin it sends no header of the caller except Accept,
// Accept-Language and User-Agent. The client is safe for concurrent use.
func NewClient(o Options) *http.Client {
	o = o.withDefaults()
	return &http.Client{
		Transport:     &guard{options: o, next: transport(o)},
		CheckRedirect: o.checkRedirect,
		Timeout:       max(o.Timeout, 0),
	}
}

func (o Options) withDefaults() Options {
	if len(o.Ports) == 0 {
		o.Ports = []uint16{80, 443}
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxBody == 0 {
		o.MaxBody = DefaultMaxBody
	}
	if o.MaxRedirects == 0 {
		o.MaxRedirects = DefaultMaxRedirects
	}
	return o
}

func transport(o Options) *http.Transport {
	return &http.Transport{
		Proxy:                  nil, // a proxy would connect for us, unchecked
		DialContext:            o.dial,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  max(o.Timeout, 0),
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConns:           32,
		MaxIdleConnsPerHost:    2,
		MaxConnsPerHost:        16,
		IdleConnTimeout:        30 * time.Second,
	}
}

// guard checks each request on its way, the ones that follow a redirect too, and caps each response.
type guard struct {
	options Options
	next    http.RoundTripper
}

func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := g.options.checkURL(r.URL); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper closes the body in any case; the refusal is what matters
		}
		return nil, err
	}
	response, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = &cappedBody{body: response.Body, left: g.options.MaxBody}
	return response, nil
}

// CloseIdleConnections lets http.Client.CloseIdleConnections reach the transport.
func (g *guard) CloseIdleConnections() {
	if c, ok := g.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (o Options) checkURL(u *url.URL) error {
	host := u.Hostname()
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return denied(u.Scheme, "only https and http can be fetched")
	case u.Scheme == "http" && !o.PlainHTTP:
		return denied(u.Scheme, "only https can be fetched")
	case u.User != nil:
		return denied(host, "a URL with a user name or password in it is refused")
	case host == "":
		return denied(u.Redacted(), "the URL names no host")
	case isShorthandAddress(host):
		return denied(host, "write the address in full, as four numbers with dots or in brackets")
	}
	port, err := portOf(u)
	if err != nil {
		return denied(u.Host, "%q is not a port", u.Port())
	}
	if !o.opens(port) && !o.Allow.hasPort(host, port) {
		return denied(net.JoinHostPort(host, strconv.Itoa(int(port))), "port %d is not among the allowed ports; an operator can allow host:%d", port, port)
	}
	return nil
}

func (o Options) opens(port uint16) bool { return o.AnyPort || slices.Contains(o.Ports, port) }

func portOf(u *url.URL) (uint16, error) {
	switch {
	case u.Port() != "":
		port, err := strconv.ParseUint(u.Port(), 10, 16)
		return uint16(port), err
	case u.Scheme == "https":
		return 443, nil
	default:
		return 80, nil
	}
}

// isShorthandAddress finds the old spellings of IPv4 addresses ("127.1", "0x7f.1", "2130706433"), which some resolvers
// read as addresses and others as names.
func isShorthandAddress(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	last := strings.ToLower(labels[len(labels)-1])
	if digits, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(digits, "0123456789abcdef") == "" // "0x" alone is zero to some
	}
	return strings.Trim(last, "0123456789") == ""
}

// dial connects to address ("host:port") and lets the guard see each address that the host resolves to.
func (o Options) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("dial %q: %w", address, err)
	}
	dialer := net.Dialer{
		Timeout:  10 * time.Second,
		Resolver: o.Resolver,
		Control: func(_, resolved string, _ syscall.RawConn) error {
			return o.checkConnection(host, resolved)
		},
	}
	return dialer.DialContext(ctx, network, address)
}

func (o Options) checkConnection(host, resolved string) error {
	target, err := netip.ParseAddrPort(resolved)
	if err != nil {
		return denied(host, "it leads to no IP address")
	}
	addr := target.Addr().Unmap()
	if o.Allow.has(host, addr, target.Port(), o.opens) {
		return nil
	}
	if !o.opens(target.Port()) {
		return denied(host, "port %d is not among the allowed ports", target.Port())
	}
	if why := classify(addr); why != "" {
		return denied(host, "it leads to %s, not to the public Internet", why)
	}
	return nil
}

func (o Options) checkRedirect(next *http.Request, earlier []*http.Request) error {
	first, last := earlier[0].URL, earlier[len(earlier)-1].URL
	if len(earlier) > o.MaxRedirects {
		return denied(next.URL.Hostname(), "more than %d redirects", max(o.MaxRedirects, 0))
	}
	if last.Scheme == "https" && next.URL.Scheme != "https" {
		return denied(next.URL.Hostname(), "a redirect from https to %s", next.URL.Scheme)
	}
	next.Header.Del("Referer") // the path and query of the previous page are private
	if origin(next.URL) != origin(first) {
		keepHeaders(next.Header, "Accept", "Accept-Language", "User-Agent")
	}
	return o.checkURL(next.URL)
}

func origin(u *url.URL) string {
	port, err := portOf(u)
	if err != nil {
		return u.String()
	}
	return fmt.Sprintf("%s://%s:%d", u.Scheme, strings.ToLower(u.Hostname()), port)
}

func keepHeaders(h http.Header, keep ...string) {
	for name := range h {
		if !slices.Contains(keep, name) {
			h.Del(name)
		}
	}
}
