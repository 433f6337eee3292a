// Package load is the client of the benchmark: it reads streams, measures times and verifies that no event is lost,
// repeated or out of order. It uses little processor time, because it shares the processor with the services that it
// measures.
package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Request is one stream to open.
type Request struct {
	Method string
	URL    string
	Body   string        // JSON; "" = none
	Key    string        // API key; "" = none
	Deltas int           // expected number of deltas; -1 = unknown
	Latest bool          // measure the latency of each delta
	Settle time.Duration // ignore latencies up to this time after the start
	Keep   bool          // keep the ids
}

// Result is the result of one stream.
type Result struct {
	Events     int
	Deltas     int
	Bytes      int           // of all events on the wire
	DeltaBytes int           // of the deltas alone
	FirstEvent time.Duration // since the request was sent
	FirstDelta time.Duration
	Whole      time.Duration   // until the end of the stream
	Latencies  []time.Duration // from the time in an event to its arrival
	IDs        []string
	RequestID  string
}

// Client opens streams. It is safe for concurrent use.
type Client struct {
	http   *http.Client
	buffer int
}

// New returns a client whose streams use read buffers of the given size.
func New(buffer int) *Client {
	return &Client{buffer: buffer, http: &http.Client{Transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 1 << 14,
		ReadBufferSize:      4 << 10,
		WriteBufferSize:     1 << 10,
	}}}
}

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Read reads a stream to its end. It returns an error if events are out of order, or if the stream does not end with
// the terminal event done.
func (c *Client) Read(ctx context.Context, r Request) (Result, error) {
	start := time.Now()
	body, result, err := c.open(ctx, r)
	if err != nil {
		return result, err
	}
	defer func() { _ = body.Close() }() // errors of the stream are returned already
	in := newReader(body, c.buffer)
	var order check
	for {
		e, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return result, fmt.Errorf("read %s after %d events: %w", r.URL, result.Events, err)
		}
		if err := order.see(e); err != nil {
			return result, fmt.Errorf("read %s: %w", r.URL, err)
		}
		if err := result.add(r, e, start, order.deltas > result.Deltas); err != nil {
			return result, fmt.Errorf("read %s: %w", r.URL, err)
		}
	}
	result.Whole = time.Since(start)
	if err := order.end(r.Deltas); err != nil {
		return result, fmt.Errorf("read %s: %w", r.URL, err)
	}
	return result, nil
}

// Hold opens a stream, reads its first event, calls opened, and leaves the stream open until ctx is done.
func (c *Client) Hold(ctx context.Context, r Request, opened func()) error {
	body, _, err := c.open(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // the stream is closed on purpose
	if _, err := newReader(body, longest).next(); err != nil {
		return fmt.Errorf("hold %s: %w", r.URL, err)
	}
	opened()
	n, err := io.Copy(io.Discard, body)
	if ctx.Err() == nil {
		return fmt.Errorf("hold %s: ended after %d bytes: %w", r.URL, n, err)
	}
	return nil
}

// Post sends body and expects only a status.
func (c *Client) Post(ctx context.Context, url string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		return fmt.Errorf("POST %s: %s", url, response.Status)
	}
	return nil
}

func (c *Client) open(ctx context.Context, r Request) (io.ReadCloser, Result, error) {
	request, err := http.NewRequestWithContext(ctx, r.Method, r.URL, strings.NewReader(r.Body))
	if err != nil {
		return nil, Result{}, err
	}
	request.Header.Set("Accept", "text/event-stream")
	if r.Key != "" {
		request.Header.Set("Authorization", "Bearer "+r.Key)
	}
	if r.Body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, Result{}, err
	}
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // the status is sufficient
		_ = response.Body.Close()
		return nil, Result{}, fmt.Errorf("%s %s: %s: %s", r.Method, r.URL, response.Status, bytes.TrimSpace(text))
	}
	return response.Body, Result{RequestID: response.Header.Get("X-Request-Id")}, nil
}

// add counts one event.
func (r *Result) add(request Request, e seen, start time.Time, isDelta bool) error {
	r.Events++
	r.Bytes += e.wire
	if r.Events == 1 {
		r.FirstEvent = time.Since(start)
	}
	if request.Keep {
		r.IDs = append(r.IDs, string(e.id))
	}
	if string(e.name) == "error" || string(e.name) == "aborted" {
		return fmt.Errorf("the request ended with %.300s", e.data)
	}
	if !isDelta {
		return nil
	}
	r.Deltas++
	r.DeltaBytes += e.wire
	if r.Deltas == 1 {
		r.FirstDelta = time.Since(start)
	}
	if !request.Latest || time.Since(start) < request.Settle {
		return nil
	}
	now := time.Now()
	at, err := timeOf(e.data)
	if err != nil {
		return err
	}
	r.Latencies = append(r.Latencies, now.Sub(at))
	return nil
}

// stamp is the format of the times in events.
const stamp = "2006-01-02T15:04:05.000000Z"

var stampMember = []byte(`"timestamp":"`)

func timeOf(data []byte) (time.Time, error) {
	i := bytes.Index(data, stampMember)
	if i < 0 || len(data) < i+len(stampMember)+len(stamp) {
		return time.Time{}, fmt.Errorf("event without a time: %.100s", data)
	}
	text := data[i+len(stampMember):]
	return time.Parse(stamp, string(text[:len(stamp)]))
}
