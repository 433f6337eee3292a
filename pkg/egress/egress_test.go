package egress_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/egress"
)

func TestCheckRefusesAddressesThatAreNotPublic(t *testing.T) {
	t.Parallel()
	tests := []struct {
		addr string
		ok   bool
	}{
		{"169.254.169.254", false}, {"::ffff:169.254.169.254", false}, {"64:ff9b::a9fe:a9fe", false},
		{"64:ff9b:1::1", false}, {"0.0.0.0", false}, {"0.1.2.3", false}, {"127.0.0.1", false}, {"127.255.255.254", false},
		{"10.0.0.1", false}, {"172.16.0.1", false}, {"172.31.255.255", false}, {"192.168.1.100", false},
		{"100.64.0.1", false}, {"100.100.100.200", false}, {"100.127.255.255", false}, {"192.0.0.192", false},
		{"198.18.0.1", false}, {"198.19.255.255", false}, {"224.0.0.1", false}, {"255.255.255.255", false},
		{"240.0.0.1", false}, {"168.63.129.16", false}, {"192.88.99.1", false},
		{"::", false}, {"::1", false}, {"::127.0.0.1", false}, {"::ffff:127.0.0.1", false}, {"fe80::1", false},
		{"fe80::1%eth0", false}, {"fc00::1", false}, {"fd00:ec2::254", false}, {"ff02::1", false},
		{"2001:0:1::1", false}, {"2001:db8::1", false}, {"2002:7f00:1::", false}, {"fec0::1", false},
		{"8.8.8.8", true}, {"::ffff:8.8.8.8", true}, {"172.15.255.255", true}, {"172.32.0.1", true}, {"100.63.255.255", true},
		{"100.128.0.1", true}, {"192.0.1.1", true}, {"198.17.255.255", true}, {"198.20.0.1", true},
		{"2606:4700:4700::1111", true}, {"2a00:1450:4001::1", true},
	}
	for _, test := range tests {
		t.Run(test.addr, func(t *testing.T) {
			t.Parallel()
			err := egress.Check(netip.MustParseAddr(test.addr))
			if (err == nil) != test.ok {
				t.Errorf("Check(%s): got %v, want allowed = %t", test.addr, err, test.ok)
			}
		})
	}
	if egress.Check(netip.Addr{}) == nil {
		t.Error("Check of no address: got nil, want an error")
	}
}

// TestRefusedTargets is the table of inputs that try to reach what is not public. The names resolve as a hostile or
// internal DNS would have them.
func TestRefusedTargets(t *testing.T) {
	t.Parallel()
	resolver := serveDNS(t, map[string][]netip.Addr{
		"metadata.google.internal.": {netip.MustParseAddr("169.254.169.254")},
		"evil.":                     {netip.MustParseAddr("10.0.0.1")},
		"allowed.com.":              {netip.MustParseAddr("127.0.0.1")},
		"localhost.":                {netip.MustParseAddr("127.0.0.1")},
		"six.example.":              {netip.MustParseAddr("64:ff9b::a9fe:a9fe")},
	})
	urls := []string{
		"http://169.254.169.254/", "http://[::ffff:169.254.169.254]/", "http://[64:ff9b::a9fe:a9fe]/",
		"http://0.0.0.0:8222/", "http://0.0.0.0/", "http://127.1/", "http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1/",
		"http://127.0.0.1./", "http://localhost./", "http://localhost/", "http://[::1]:4222/", "http://[::1]/",
		"http://100.100.100.200/", "http://[fd00:ec2::254]/", "http://[fe80::1%25eth0]/", "http://metadata.google.internal/",
		"https://metadata.google.internal/", "http://six.example/", "file:///etc/passwd", "gopher://127.0.0.1/", "ftp://allowed.com/",
		"http://user@127.0.0.1", "http://user:pass@allowed.com", "https://allowed.com@evil", "http://evil#@allowed.com",
		"http://allowed.com:22/", "http://allowed.com:4222/", "http://allowed.com:6379/", "http://allowed.com:5432/",
		"http://8.8.8.8:22/", "http://8.8.8.8:65536/", "http://8.8.8.8:0/", "http:///path", "http://:80/",
	}
	for _, url := range urls {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			client := egress.NewClient(egress.Options{PlainHTTP: true, Resolver: resolver, Timeout: 5 * time.Second})
			err := get(t, client, url)
			if url == "http://8.8.8.8:65536/" || strings.HasPrefix(url, "http://[fe80") && err != nil && !isDenied(err) {
				return // refused before the guard sees it
			}
			if !isDenied(err) {
				t.Errorf("GET %s: got %v, want a *DeniedError", url, err)
			}
		})
	}
}

func TestPlainHTTPIsOffUnlessAskedFor(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	allow := mustAllow(t, server.Listener.Addr().String())
	if err := get(t, egress.NewClient(egress.Options{Allow: allow}), server.URL); !isDenied(err) {
		t.Errorf("plain http: got %v, want a *DeniedError", err)
	}
	if err := get(t, egress.NewClient(egress.Options{Allow: allow, PlainHTTP: true}), server.URL); err != nil {
		t.Errorf("plain http, allowed: %v", err)
	}
}

func TestAllowListLetsThroughWhatItNames(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	port := server.Listener.Addr().(*net.TCPAddr).AddrPort().Port()
	resolver := serveDNS(t, map[string][]netip.Addr{
		"wiki.internal.":  {netip.MustParseAddr("127.0.0.1")},
		"other.internal.": {netip.MustParseAddr("127.0.0.1")},
	})
	at := func(host string) string { return net.JoinHostPort(host, portText(port)) }
	tests := []struct {
		name  string
		allow []string
		ports []uint16
		host  string
		ok    bool
	}{
		{"an address with its port", []string{at("127.0.0.1")}, nil, "127.0.0.1", true},
		{"a host with its port", []string{at("wiki.internal")}, nil, "WIKI.internal", true},
		{"a host whose port is usual", []string{"wiki.internal"}, []uint16{port}, "wiki.internal", true},
		{"a network whose port is usual", []string{"127.0.0.0/8"}, []uint16{port}, "other.internal", true},
		{"a name that leads to an allowed address", []string{at("127.0.0.1")}, nil, "other.internal", true},
		{"a host without a port opens no port", []string{"wiki.internal"}, nil, "wiki.internal", false},
		{"a network opens no port", []string{"127.0.0.0/8"}, nil, "127.0.0.1", false},
		{"the port of one entry is not the port of another", []string{"wiki.internal", at("10.1.2.3")}, nil, "wiki.internal", false},
		{"another host", []string{at("wiki.internal")}, nil, "other.internal", false},
		{"a host of which the entry is only a suffix", []string{at("internal")}, nil, "other.internal", false},
		{"nothing", nil, []uint16{port}, "127.0.0.1", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client := egress.NewClient(egress.Options{
				PlainHTTP: true, Resolver: resolver, Ports: test.ports, Allow: mustAllow(t, test.allow...),
			})
			err := get(t, client, "http://"+at(test.host)+"/")
			if test.ok && err != nil {
				t.Errorf("got %v, want it let through", err)
			}
			if !test.ok && !isDenied(err) {
				t.Errorf("got %v, want a *DeniedError", err)
			}
		})
	}
}

func TestParseAllowRefusesNonsense(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{"", "*", "*.internal", "http://wiki", "wiki:0", "wiki:70000", "10.0.0.0/33", "127.1", "a b", "wiki/path", "::ffff:10.0.0.0/104"} {
		if _, err := egress.ParseAllow([]string{entry}); err == nil {
			t.Errorf("ParseAllow(%q): got nil, want an error", entry)
		}
	}
}

func TestANameThatChangesItsAddressGainsNothing(t *testing.T) {
	t.Parallel()
	public := httptest.NewUnstartedServer(http.NotFoundHandler())
	listener, err := net.Listen("tcp", "127.0.0.2:0") // in place of the public address
	if err != nil {
		t.Fatal(err)
	}
	public.Listener = listener
	public.Config.SetKeepAlivesEnabled(false)
	public.Start()
	t.Cleanup(public.Close)
	var moved atomic.Bool
	resolver := serveDNSFunc(t, func(string) []netip.Addr {
		if moved.Load() {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.2")}
	})
	client := egress.NewClient(egress.Options{
		PlainHTTP: true, Resolver: resolver, Allow: mustAllow(t, listener.Addr().String()),
	})
	url := "http://rebind.example:" + portText(listener.Addr().(*net.TCPAddr).AddrPort().Port()) + "/"
	if err := get(t, client, url); err != nil {
		t.Fatalf("while the name leads to the allowed address: %v", err)
	}
	moved.Store(true)
	if err := get(t, client, url); !isDenied(err) {
		t.Errorf("after the name has moved to 127.0.0.1: got %v, want a *DeniedError", err)
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Authorization", "X-Api-Key", "Cookie", "Referer"} {
			if r.Header.Get(name) != "" {
				http.Error(w, name+" arrived at another origin", http.StatusTeapot)
				return
			}
		}
	}))
	t.Cleanup(other.Close)
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	to := func(target string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusFound) }
	}
	mux.HandleFunc("/loopback", to("http://127.0.0.3/"))
	mux.HandleFunc("/file", to("file:///etc/passwd"))
	mux.HandleFunc("/user", to("http://a:b@"+server.Listener.Addr().String()+"/end"))
	mux.HandleFunc("/for-ever", to("/for-ever"))
	mux.HandleFunc("/other", to(other.URL))
	mux.HandleFunc("/same", to("/end"))
	mux.HandleFunc("/end", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	client := egress.NewClient(egress.Options{
		PlainHTTP: true, Allow: mustAllow(t, server.Listener.Addr().String(), other.Listener.Addr().String()),
	})
	tests := []struct {
		name, path string
		denied     bool
	}{
		{"to loopback is refused", "/loopback", true},
		{"to a file is refused", "/file", true},
		{"to a URL with credentials is refused", "/user", true},
		{"without end is refused", "/for-ever", true},
		{"to another origin goes without the caller's headers", "/other", false},
		{"within the origin keeps the caller's headers", "/same", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+test.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer secret")
			request.Header.Set("X-Api-Key", "secret")
			request.Header.Set("Cookie", "secret=1")
			response, err := client.Do(request)
			if test.denied {
				if !isDenied(err) {
					t.Errorf("got %v, want a *DeniedError", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("got %s, want 200", response.Status)
			}
		})
	}
}

func TestResponsesAreBounded(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/full", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1000)) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	})
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(make([]byte, 10<<20)); err != nil || z.Close() != nil {
		t.Fatal("cannot make a gzip bomb")
	}
	mux.HandleFunc("/bomb", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes())
	})
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/drip", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	tests := []struct {
		name, path string
		timeout    time.Duration
		want       error
	}{
		{"a body that just fits", "/full", 0, nil},
		{"a body without end", "/endless", 0, egress.ErrBodyTooLarge},
		{"a gzip bomb", "/bomb", 0, egress.ErrBodyTooLarge},
		{"no answer", "/silent", 300 * time.Millisecond, context.DeadlineExceeded},
		{"an answer that never ends and says nothing", "/drip", 300 * time.Millisecond, context.DeadlineExceeded},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client := egress.NewClient(egress.Options{
				PlainHTTP: true, MaxBody: 1000, Timeout: test.timeout, Allow: mustAllow(t, server.Listener.Addr().String()),
			})
			if err := get(t, client, server.URL+test.path); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func TestTheEnvironmentsProxyIsIgnored(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") }))
	t.Cleanup(proxy.Close)
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	if err := get(t, egress.NewClient(egress.Options{PlainHTTP: true}), "http://10.0.0.1/"); !isDenied(err) {
		t.Errorf("got %v, want a *DeniedError", err)
	}
}

func get(t *testing.T, client *http.Client, url string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

func isDenied(err error) bool {
	_, ok := errors.AsType[*egress.DeniedError](err)
	return ok
}

func mustAllow(t *testing.T, entries ...string) egress.AllowList {
	t.Helper()
	allow, err := egress.ParseAllow(entries)
	if err != nil {
		t.Fatal(err)
	}
	return allow
}

func TestAnyPortOpensPortsAndNoAddress(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(server.Close)
	allow, err := egress.ParseAllow([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	response, err := egress.NewClient(egress.Options{PlainHTTP: true, AnyPort: true, Allow: allow}).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response, err := egress.NewClient(egress.Options{PlainHTTP: true, AnyPort: true}).Get(server.URL); err == nil {
		_ = response.Body.Close()
		t.Error("an address that is not allowed was reached")
	}
}
