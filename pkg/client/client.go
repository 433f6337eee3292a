// Package client is a client of the native protocol: it starts requests, follows them over cut connections so that each
// event is delivered exactly once, and reads threads.
//
// Start at [Client.Stream]. An error of the server is an *apierr.Error with a code.
package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/id"
	"github.com/go-json-experiment/json"
)

// Client talks to one gateway. Its fields may be changed before its first use; afterwards it is safe for concurrent use.
type Client struct {
	// HTTP sends the requests. It must not have a timeout, because streams last long.
	HTTP *http.Client
	// Idle is how long a stream may be silent before it counts as cut. Gateways send a heartbeat every 15 s.
	Idle time.Duration
	// Attempts is how often in a row a cut stream is taken up again in vain before the client gives up.
	Attempts int

	base, key string
	wait      time.Duration // before the second attempt
}

// New returns a client of the gateway at baseURL, for example "http://127.0.0.1:8080". Key is the API key; "" sends none.
func New(baseURL, key string) *Client {
	return &Client{
		HTTP: &http.Client{Transport: transport()}, Idle: time.Minute, Attempts: 10,
		base: strings.TrimRight(baseURL, "/"), key: key, wait: shortWait,
	}
}

// transport gives up on a server that takes the connection and says nothing, and asks for no compression, which would
// hold events back.
func transport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // replaced by the program on purpose
		return http.DefaultTransport
	}
	t = t.Clone()
	t.ResponseHeaderTimeout = time.Minute
	t.DisableCompression = true
	return t
}

// maxAnswer limits the body of a response that is not a stream, in bytes.
const maxAnswer = 64 << 20

// ask sends a request and decodes the JSON of the answer into answer, unless that is nil.
func (c *Client) ask(ctx context.Context, method, path string, query url.Values, answer any) error {
	request, err := c.newRequest(ctx, method, path, query, nil)
	if err != nil {
		return err
	}
	return c.exchange(request, answer)
}

// post posts body as JSON and decodes the response. It retries temporary errors, with one idempotency key, so that the
// call takes effect once.
func (c *Client) post(ctx context.Context, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the body of POST %s: %w", path, err)
	}
	key, wait := id.New("idem"), backoff{short: c.wait}
	for {
		request, err := c.newRequest(ctx, http.MethodPost, path, nil, text)
		if err != nil {
			return err
		}
		request.Header.Set("Idempotency-Key", key)
		err = c.exchange(request, answer)
		if err == nil || !passing(err) || !wait.pause(ctx, err, startAttempts) {
			return err
		}
	}
}

// exchange sends a request and decodes the JSON of the answer into answer, unless that is nil.
func (c *Client) exchange(request *http.Request, answer any) error {
	request.Header.Set("Accept", "application/json")
	response, err := c.send(request)
	if err != nil {
		return err
	}
	defer drain(response)
	if answer == nil {
		return nil
	}
	what := request.Method + " " + request.URL.Path
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer to %s: %w", what, err)
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return &permanentError{fmt.Errorf("decode the answer to %s: %w; is %s an agentbus gateway?", what, err, c.base)}
	}
	return nil
}

func (c *Client) newRequest(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Request, error) {
	address := c.base + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("address of the gateway: %w", err)
	}
	if request.URL.Scheme != "http" && request.URL.Scheme != "https" {
		return nil, fmt.Errorf("address of the gateway %q: write one such as http://127.0.0.1:8080", c.base)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	return request, nil
}

// send returns a response with a good status; its body is the caller's to close. A bad status is a *apierr.Error.
func (c *Client) send(request *http.Request) (*http.Response, error) {
	response, err := c.HTTP.Do(request)
	if err != nil {
		return nil, err // says the method, the address and what went wrong
	}
	if response.StatusCode >= http.StatusBadRequest {
		defer drain(response)
		return nil, errorOf(response)
	}
	return response, nil
}

// drain lets the connection be used again, unless what is left of the body is long.
func drain(response *http.Response) {
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10) // an error means that there is nothing to use again
	_ = response.Body.Close()
}
