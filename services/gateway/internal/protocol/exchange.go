package protocol

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/budget"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/gzhttp"
)

// Call is an HTTP request that the middleware has let through.
type Call struct {
	Writer    http.ResponseWriter
	Request   *http.Request
	Route     Route
	Param     func(name string) string
	Principal auth.Principal // zero for a route without a scope
	Slot      *Slot          // of a route with StreamLimit
	// CheckOrigin refuses WebSockets from web pages of other origins.
	CheckOrigin func(*http.Request) error
}

// Exchange is one HTTP request and its response. It is for the goroutine that serves it.
type Exchange struct {
	host *Host
	call Call
	body *budget.Turn // of a large body, from its reading until the request is accepted; nil = none
}

// NewExchange returns the exchange of a call.
func (h *Host) NewExchange(c Call) *Exchange { return &Exchange{host: h, call: c} }

// Close gives back what the exchange holds, after its handler has returned.
func (x *Exchange) Close() { x.leaveBody() }

// Context ends when the client disconnects, and after [Timeout] unless the route is untimed.
func (x *Exchange) Context() context.Context { return x.call.Request.Context() }

// WithTimeout bounds Context by [Timeout] until the returned function is called.
func (x *Exchange) WithTimeout() (done func()) {
	original := x.call.Request
	ctx, cancel := context.WithTimeout(original.Context(), Timeout)
	x.call.Request = original.WithContext(ctx)
	return func() {
		cancel()
		x.call.Request = original
	}
}

// Principal is the owner of the request's API key.
func (x *Exchange) Principal() auth.Principal { return x.call.Principal }

// Param returns a variable segment of the path.
func (x *Exchange) Param(name string) string { return x.call.Param(name) }

// Query returns the parameters of the URL.
func (x *Exchange) Query() url.Values { return x.call.Request.URL.Query() }

// Header returns a header of the request; "" without one.
func (x *Exchange) Header(name string) string { return x.call.Request.Header.Get(name) }

// BaseURL is the URL of the gateway as the client has called it, without a path.
func (x *Exchange) BaseURL() string {
	scheme := "http"
	if secure(x.call.Request) {
		scheme = "https"
	}
	return scheme + "://" + x.call.Request.Host
}

// secure reports whether the client has a connection by TLS, to this process or to a proxy.
func secure(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

// QueryList returns a list from the URL, whose elements are separated by commas or in repeated parameters.
func (x *Exchange) QueryList(name string) []string { return queryList(x.Query(), name) }

// Body reads the body. It may be called once. A large body waits until few others are in memory.
func (x *Exchange) Body() ([]byte, error) {
	if err := x.awaitBody(); err != nil {
		return nil, err
	}
	return x.host.ReadBody(x.call.Writer, x.call.Request, x.call.Route.MaxBody)
}

// Cursor returns the cursor that the client resumes after, from the Last-Event-ID header or the parameter "after"; ""
// without one.
func (x *Exchange) Cursor() (string, error) {
	cursor := ""
	for _, one := range append(x.call.Request.Header.Values("Last-Event-ID"), x.Query()["after"]...) {
		if one == "" {
			continue
		}
		if cursor != "" && cursor != one {
			return "", apierr.New(apierr.InvalidMessageFormat, "Last-Event-ID and after name different events; send one of them")
		}
		cursor = one
	}
	return cursor, nil
}

// maxKey is the longest Idempotency-Key, in bytes.
const maxKey = 255

// IdempotencyKey returns the Idempotency-Key header; "" without one.
func (x *Exchange) IdempotencyKey() (string, error) {
	values := x.call.Request.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 || values[0] == "" || len(values[0]) > maxKey {
		return "", apierr.New(apierr.InvalidMessageFormat, "send one Idempotency-Key of 1 to %d characters, or none", maxKey)
	}
	return values[0], nil
}

// NewThreadID returns the id of a thread that this exchange creates. A retry with the same Idempotency-Key gets the same id.
func (x *Exchange) NewThreadID() (string, error) {
	key, err := x.IdempotencyKey()
	if err != nil || key == "" {
		return id.New(id.Thread), err
	}
	p := x.Principal()
	return id.Derive(id.Thread, p.Tenant, p.Subject, x.call.Route.Path, key), nil
}

// HasAgent reports whether the caller may address an agent.
func (x *Exchange) HasAgent(agentID string) bool { return x.host.HasAgent(x.Principal(), agentID) }

// CheckStorage returns an error if the caller has reached its storage quota.
func (x *Exchange) CheckStorage() error { return x.host.quotas.Store(x.Context(), x.Principal()) }

// Accept stores a request, so that it will run, and sets the headers that identify it. See admission.Acceptor.Accept for the
// errors.
func (x *Exchange) Accept(r Request) (admission.Receipt, error) {
	key, err := x.IdempotencyKey()
	if err != nil {
		return admission.Receipt{}, err
	}
	key = cmp.Or(r.Key, key)
	receipt, err := x.host.accept(x.Context(), x.Principal(), x.call.Route.Path, key, r)
	x.leaveBody() // images and files are in the object store now
	if err == nil {
		x.SetReceipt(receipt)
	}
	return receipt, err
}

// SetReceipt sets the headers that identify a request and its thread.
func (x *Exchange) SetReceipt(r admission.Receipt) {
	x.SetHeader(HeaderRequestID, r.RequestID)
	x.SetHeader(HeaderThreadID, r.ThreadID)
	if r.Replayed {
		x.SetHeader(HeaderReplayed, "true")
	}
}

// SetThread sets the header that names the thread, and the one that says that the client's cursor could not be resumed.
func (x *Exchange) SetThread(threadID string, reset bool) {
	x.SetHeader(HeaderThreadID, threadID)
	if reset {
		x.SetHeader(HeaderStreamReset, "true")
	}
}

// SetHeader sets a header of the response.
func (x *Exchange) SetHeader(name, value string) { x.call.Writer.Header().Set(name, value) }

// Audit logs that the caller is about to read a thread's events, or those of one request ("" = all), or was refused.
func (x *Exchange) Audit(threadID, requestID string, refused error) {
	x.host.audit(x.Context(), x.Principal(), reading{x.call.Route.Path, threadID, requestID}, refused)
}

// Reply writes a value as JSON, compressed from 1 KiB on if the client accepts gzip. Streams are not compressed: events would
// wait for others, or be compressed alone and gain little.
func (x *Exchange) Reply(status int, value any) error {
	return x.ReplyAs(status, "application/json", value)
}

// ReplyAs is Reply for another media type that is JSON.
func (x *Exchange) ReplyAs(status int, contentType string, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	err = http.NewResponseController(x.call.Writer).SetWriteDeadline(time.Now().Add(WriteTimeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	gzhttp.GzipHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write(append(body, '\n')) // fails if the client has disconnected
	})).ServeHTTP(x.call.Writer, x.call.Request)
	return nil
}

// Error converts an error into one for the client, for protocols whose responses contain errors. The details of internal
// errors are logged instead.
func (x *Exchange) Error(err error) *apierr.Error {
	return x.host.clientError(x.Context(), x.call.Route.Path, err)
}

// Write writes a response.
func (x *Exchange) Write(status int, contentType string, body []byte) {
	x.SetHeader("Content-Type", contentType)
	x.call.Writer.WriteHeader(status)
	_, _ = x.call.Writer.Write(body) // fails if the client has disconnected
}

// NoContent writes a response without a body.
func (x *Exchange) NoContent() { x.call.Writer.WriteHeader(http.StatusNoContent) }

// ServeContent writes a file, of which clients may ask for ranges. If SetHeader has not set its type, the extension of name
// decides.
func (x *Exchange) ServeContent(name string, modified time.Time, content io.ReadSeeker) {
	http.ServeContent(x.call.Writer, x.call.Request, name, modified, content)
}

// Encoder returns an encoder of c for what the client accepts.
func (x *Exchange) Encoder(c codec.Codec, o codec.Options) (codec.Encoder, error) {
	o.Accept = x.call.Request.Header.Get("Accept")
	return c.Encoder(o)
}

// Open opens the log of a request that this exchange has accepted, from its first event. The caller sets the encoder of the
// response. If the client disconnects before the end, the request is aborted where its agent is configured so.
func (x *Exchange) Open(r admission.Receipt) (stream.Response, error) {
	return x.host.open(x.Context(), x.Principal(), r)
}

// Resume makes a response of the frames of a log that the client joins or resumes. The caller sets the encoder.
func (x *Exchange) Resume(frames stream.Frames) stream.Response {
	return stream.Response{Frames: x.host.pace(x.Principal().Tenant, frames), KeyID: x.Principal().KeyID}
}

// Stream writes a response until its frames end. The stream may outlive Stream, which then returns nil. The route needs
// StreamLimit.
func (x *Exchange) Stream(r stream.Response) error {
	slot, ended, route, log := x.call.Slot, r.Ended, x.call.Route.Path, x.host.Log // not x, which holds the request
	r.Ended = func(err error) {
		slot.release()
		if errors.Is(err, stream.ErrTruncated) && !errors.Is(err, stream.ErrDisconnected) {
			log.Info("stream cut", "route", route, "error", err)
		}
		if ended != nil {
			ended(err)
		}
	}
	slot.keep()
	return x.host.Streamer.Serve(x.call.Writer, x.call.Request, r)
}

// Collect passes the frames of a response to each until they end, under the rules of Stream and without writing anything.
func (x *Exchange) Collect(r stream.Response, each func(event.Frame) error) error {
	return x.host.Streamer.Collect(x.Context(), r, each)
}
