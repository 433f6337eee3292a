package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/contextvar"
	"github.com/agentbus/agentbus/pkg/egress"
	"github.com/agentbus/agentbus/pkg/redact"
)

// maxBody bounds one response: an answer, or what a stream of notifications brings until it is opened anew.
const maxBody = 64 << 20

// client returns an HTTP client with the egress guard. The operator has configured the URL, so its host may have any
// address; other hosts, for example of a redirect, must be public or allowed.
func (o Options) client(forget func(), tap func(io.ReadCloser) io.ReadCloser) (*http.Client, error) {
	allow, err := o.allowed()
	if err != nil {
		return nil, err
	}
	client := egress.NewClient(egress.Options{PlainHTTP: true, Allow: allow, Timeout: egress.NoTimeout, MaxBody: maxBody})
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, redact.Error(err)
	}
	client.Transport = &door{next: client.Transport, home: u, headers: o.Headers, forget: forget, tap: tap}
	return client, nil
}

// allowed is the operator's list and the host of the URL.
func (o Options) allowed() (egress.AllowList, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return egress.AllowList{}, fmt.Errorf("%.200q is not the URL of a server; write one such as https://mcp.example.com/mcp", redact.URL(o.URL))
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return o.Allow.With(net.JoinHostPort(u.Hostname(), port))
}

// door adds the operator's headers to what goes to the server itself, lets its responses pass tap, and notices when the server has forgotten a
// session or cannot be reached.
type door struct {
	next    http.RoundTripper
	home    *url.URL
	headers map[string]string
	forget  func()
	tap     func(io.ReadCloser) io.ReadCloser
}

// callHeaders is the key of the headers of one call in its context.
type callHeaders struct{}

// withHeaders returns ctx with the headers that have places for values of the request's context. A header without its value
// is left out.
func (o Options) withHeaders(ctx context.Context, values json.RawMessage) (context.Context, error) {
	headers := map[string]string{}
	for name, value := range o.Headers {
		filled, complete := contextvar.FillAll(value, values)
		if !contextvar.HasPlace(value) || !complete {
			continue
		}
		if strings.ContainsFunc(filled, unicode.IsControl) {
			return ctx, apierr.New(apierr.ToolError, "the request's context has control characters in a value for the header %s", name)
		}
		headers[name] = filled
	}
	if len(headers) == 0 {
		return ctx, nil
	}
	return context.WithValue(ctx, callHeaders{}, headers), nil
}

// RoundTrip implements [http.RoundTripper].
func (d *door) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == d.home.Scheme && r.URL.Host == d.home.Host {
		r = r.Clone(r.Context())
		for name, value := range d.headers {
			if !contextvar.HasPlace(value) {
				r.Header.Set(name, value)
			}
		}
		ofCall, _ := r.Context().Value(callHeaders{}).(map[string]string)
		for name, value := range ofCall {
			r.Header.Set(name, value)
		}
	}
	response, err := d.next.RoundTrip(r)
	switch {
	case err != nil && r.Context().Err() == nil:
		d.forget() // connecting again finds out when the server is back
	case err == nil && response.StatusCode == http.StatusNotFound && r.Header.Get("Mcp-Session-Id") != "":
		d.forget()
	case err == nil && isDown(response.StatusCode):
		d.forget()
		_ = response.Body.Close() // a page of the proxy
		return nil, fmt.Errorf("the server is not available: %s", response.Status)
	}
	if err == nil {
		response.Body = d.tap(response.Body)
	}
	return response, err
}

// isDown reports whether a status is that of a proxy whose server does not answer.
func isDown(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}
