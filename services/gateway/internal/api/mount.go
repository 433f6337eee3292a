package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
	"github.com/gin-gonic/gin"
)

// Mount is a family of routes that another package answers, behind the same keys, limits and deadlines as all others.
type Mount struct {
	Dialect   codec.Codec // tells the errors
	MaxBody   int64       // bytes; 0 = as everywhere
	Endpoints []Endpoint
}

// Endpoint is one of these routes.
type Endpoint struct {
	Route
	Scope auth.Scope // that a key needs; "" = no key at all
	Long  bool       // it may last as long as a stream does, and takes a stream's place
	List  bool       // it reads much of a session at once, and takes a place for that
	Page  bool       // a web page may give its key as bearerProtocol says
	Serve func(*Call) error
}

// Call is a request to an Endpoint, and the answer to it. It is for the goroutine that serves it.
type Call struct {
	api *API
	gin *gin.Context
}

func (a *API) mount(engine *gin.Engine, m Mount) {
	for _, e := range m.Endpoints {
		chain := []gin.HandlerFunc{a.speak(m.Dialect)}
		if m.MaxBody > 0 {
			chain = append(chain, func(c *gin.Context) { c.Set(keyMaxBody, m.MaxBody) })
		}
		if e.Page {
			chain = append(chain, keyOfPage)
		}
		if e.Scope != "" {
			chain = append(chain, a.authenticate, a.limit, a.need(e.Scope))
		}
		if e.Method == http.MethodGet {
			chain = append(chain, a.drop)
		}
		if e.List {
			chain = append(chain, a.oneList)
		}
		serve := func(c *gin.Context) error { return e.Serve(&Call{a, c}) }
		if e.Long {
			chain = append(chain, a.oneStream, a.handle(serve))
		} else {
			chain = append(chain, a.quick(serve))
		}
		engine.Handle(e.Method, e.Path, chain...)
	}
}

// Context ends when the client leaves, and for an endpoint that is not long after [answerWithin].
func (c *Call) Context() context.Context { return c.gin.Request.Context() }

// Hurry bounds Context until the returned function is called: for what a long endpoint does before its stream.
func (c *Call) Hurry() (done func()) { return c.api.hurry(c.gin) }

// Principal is who calls.
func (c *Call) Principal() auth.Principal { return principal(c.gin) }

// Query returns the parameters of the URL.
func (c *Call) Query() url.Values { return c.gin.Request.URL.Query() }

// Param is a variable part of the route's path.
func (c *Call) Param(name string) string { return c.gin.Param(name) }

// Words reads a list from the URL: separated by commas, or the parameter repeated.
func (c *Call) Words(name string) []string { return words(c.gin, name) }

// Body reads the body, once.
func (c *Call) Body() ([]byte, error) { return c.api.readBody(c.gin) }

// Cursor is what the client resumes after; "" when it does not.
func (c *Call) Cursor() (string, error) { return resumeAfter(c.gin) }

// ThreadID is the id of a thread that the call begins. A retry with the same Idempotency-Key begins the same.
func (c *Call) ThreadID() (string, error) {
	key, err := idempotencyKey(c.gin.Request.Header)
	if err != nil || key == "" {
		return id.New(id.Thread), err
	}
	p := c.Principal()
	return id.Derive(id.Thread, p.Tenant, p.Subject, c.gin.FullPath(), key), nil
}

// Store refuses what would store more for the caller than it may have stored.
func (c *Call) Store() error { return c.api.quotas.Store(c.Context(), c.Principal()) }

// Accept has a request taken, and sets the headers that name it. The body is what a retry with the same Idempotency-Key
// must bring again, for the same thread.
func (c *Call) Accept(agentID string, r event.AgentRequest, body []byte) (admission.Receipt, error) {
	key, err := idempotencyKey(c.gin.Request.Header)
	if err != nil {
		return admission.Receipt{}, err
	}
	return c.api.take(c.gin, c.api.call(c.Principal(), c.gin.FullPath(), agentID, received{r, key, admission.Hash(r.ThreadID, body)}))
}

// Encoder returns an encoder of the dialect for what the client accepts.
func (c *Call) Encoder(d codec.Codec, o codec.Options) (codec.Encoder, error) {
	o.Accept = c.gin.GetHeader("Accept")
	return d.Encoder(o)
}

// Reply answers with a value as JSON, however long it took to come by.
func (c *Call) Reply(status int, value any) error {
	err := http.NewResponseController(c.gin.Writer).SetWriteDeadline(time.Now().Add(writeTime))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return reply(c.gin, status, value)
}

// Answer sends what is no JSON.
func (c *Call) Answer(contentType string, body []byte) { c.gin.Data(http.StatusOK, contentType, body) }

// Content sends what clients may ask for in parts, or not again. Its type goes by the end of its name, and nothing is shown
// as anything else.
func (c *Call) Content(name string, modified time.Time, content io.ReadSeeker) {
	http.ServeContent(c.gin.Writer, c.gin.Request, name, modified, content)
}

// Header sets a header of the answer.
func (c *Call) Header(name, value string) { c.gin.Header(name, value) }

// Named sets the header that names the thread, and the one that says that the client's cursor was of no use.
func (c *Call) Named(threadID string, reset bool) {
	c.gin.Header(headerThread, threadID)
	if reset {
		c.gin.Header(headerReset, "true")
	}
}

// Began opens the log of a request that the call began, from its first event on. A client that leaves before its end
// aborts it, where its agent says so.
func (c *Call) Began(t admission.Receipt) (stream.Response, error) { return c.api.began(c.gin, t) }

// Follows makes the frames of a log that somebody comes back to, or joins, an answer.
func (c *Call) Follows(frames stream.Frames) stream.Response {
	return stream.Response{Frames: c.api.paced(c.Principal().Tenant, frames), KeyID: c.Principal().KeyID}
}

// Stream writes an answer until its frames end; it may go on after Stream has returned.
func (c *Call) Stream(a stream.Response) error { return c.api.serve(c.gin, a) }

// Collect gives the frames of an answer to each until they end, under the rules of Stream and without writing anything.
func (c *Call) Collect(a stream.Response, each func(event.Frame) error) error {
	return c.api.Streamer.Collect(c.Context(), a, each)
}
