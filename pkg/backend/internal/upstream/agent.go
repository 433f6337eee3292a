package upstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/redact"
	jsonv2 "github.com/go-json-experiment/json"
)

// Agent is an agent that another server runs behind HTTP.
type Agent struct {
	Name    string            // in errors
	URL     string            // in logs only
	Headers map[string]string // sent with each request
	Query   map[string]string // added to URL
	Key     string            // sent as a bearer token; "" = none is sent
	KeyEnv  string            // the variable that holds Key

	KeyHeader string // the header that has Key in place of a bearer token; "" = Authorization

	Quiet   time.Duration // how long an answer may be silent; 0 = Patience
	Client  *http.Client  // default NewClient(Quiet), without redirects
	Retries int           // of requests that the agent did not begin; default Retries, negative = none
}

// firstWait is the time before the first retry of a request that the agent did not begin.
const firstWait = 250 * time.Millisecond

// WithDefaults returns a with its client.
func (a Agent) WithDefaults() Agent {
	if a.Client == nil {
		a.Client = NewClient(a.Quiet)
		a.Client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	a.Retries = max(0, cmp.Or(a.Retries, Retries))
	return a
}

// Named returns a with a name.
func (a Agent) Named(name string) Agent {
	a.Name = name
	return a
}

// API names the agent in errors.
func (a Agent) API() API {
	name := "the agent"
	if a.Name != "" {
		name = "agent " + a.Name
	}
	return API{
		Name: name, Address: redact.URL(a.URL), Key: a.Key, KeyEnv: cmp.Or(a.KeyEnv, "the headers of the agent"), BaseEnv: "url",
	}
}

// Request is a request to an agent.
type Request struct {
	Method string // default POST
	Path   string // added to the agent's URL
	Body   []byte // JSON
	Header http.Header
}

// Send sends a request and returns the response, whose body the caller closes. It sends a request again that the agent did
// not begin: one whose connection was refused, or that a full server turned away. A status of 300 or more is an error.
func (a Agent) Send(ctx context.Context, r Request) (*http.Response, error) {
	for try := 0; ; try++ {
		res, err := a.send(ctx, r)
		if ctx.Err() != nil {
			if err == nil {
				_ = res.Body.Close() // its content does not matter any more
			}
			return nil, ctx.Err()
		}
		wait, again := turnedAway(res, err)
		wait = cmp.Or(wait, firstWait<<try)
		if again && try < a.Retries && wait <= MaxRetryWait {
			if err == nil {
				_ = res.Body.Close() // as above
			}
			if err := sleep(ctx, wait); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, a.API().Unreachable(err)
		}
		if res.StatusCode >= http.StatusMultipleChoices {
			defer func() { _ = res.Body.Close() }() // what matters of it was read
			return nil, a.refused(res)
		}
		return res, nil
	}
}

func (a Agent) send(ctx context.Context, r Request) (*http.Response, error) {
	target, err := url.Parse(a.URL)
	if err != nil {
		return nil, err
	}
	if r.Path != "" {
		target = target.JoinPath(r.Path)
	}
	query := target.Query()
	for name, value := range a.Query {
		query.Set(name, value)
	}
	target.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, cmp.Or(r.Method, http.MethodPost), target.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	if len(r.Body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(req.Header, r.Header)
	switch {
	case a.Key != "" && a.KeyHeader != "":
		req.Header.Set(a.KeyHeader, a.Key)
	case a.Key != "":
		req.Header.Set("Authorization", "Bearer "+a.Key)
	}
	for name, value := range a.Headers {
		req.Header.Set(name, value)
	}
	return a.Client.Do(req)
}

// turnedAway reports whether the agent has not begun a request, and how long it wants to be left alone.
func turnedAway(res *http.Response, err error) (time.Duration, bool) {
	if err != nil {
		op, ok := errors.AsType[*net.OpError](err)
		return 0, ok && op.Op == "dial"
	}
	if res.StatusCode != http.StatusTooManyRequests && res.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	return RetryAfter(res.Header, time.Now()), true
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refused is the error for a response with a status of 300 or more.
func (a Agent) refused(res *http.Response) error {
	api := a.API()
	if res.StatusCode < http.StatusBadRequest {
		return apierr.Wrap(api.located(nil), apierr.AgentError, "%s redirects to another address; write that address under url", api.Name)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	if err != nil {
		body = nil // the status is error enough
	}
	return api.Refused(res.StatusCode, res.Header, detail(body), res.Header.Get("X-Request-Id"))
}

// detail is the text of an error's body: the message of a JSON object, or the body if it is a text.
func detail(body []byte) string {
	var object struct {
		Message string `json:"message"`
		Detail  any    `json:"detail"`
		Error   any    `json:"error"`
	}
	if jsonv2.Unmarshal(body, &object) != nil {
		if bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) {
			return "" // a page
		}
		return string(body)
	}
	for _, v := range []any{object.Error, object.Message, object.Detail} {
		if inner, ok := v.(map[string]any); ok {
			v = inner["message"]
		}
		if text, ok := v.(string); ok && text != "" {
			return text
		}
	}
	return ""
}

// ErrEnded is the cause of [Agent.Cut] for an answer whose stream ended as a whole, for [errors.Is].
var ErrEnded = errors.New("the stream ended without its end")

// Cut is the error for an answer that ended before its end. A turn with it may be sent again.
func (a Agent) Cut(cause error) *apierr.Error {
	if errors.Is(cause, ErrStalled) {
		return a.API().Cut(cause)
	}
	if cause == nil {
		cause = ErrEnded
	}
	return a.API().Cut(fmt.Errorf("%w: %w", backend.ErrCut, cause))
}

// Failed is the error for a failure that the agent reports.
func (a Agent) Failed(detail string, retryable bool) *apierr.Error {
	api := a.API()
	f := apierr.Wrap(api.located(nil), apierr.AgentError, "%s failed%s", api.Name, saying(api.clean(detail)))
	f.Retryable = retryable
	return f
}

// Broke is the error for an answer that violates the agent's protocol.
func (a Agent) Broke(format string, args ...any) *apierr.Error {
	api := a.API()
	return apierr.Wrap(api.located(nil), apierr.AgentError, "%s violates its protocol: %s", api.Name, api.clean(fmt.Sprintf(format, args...)))
}
