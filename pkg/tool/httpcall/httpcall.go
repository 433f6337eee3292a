// Package httpcall makes tools of HTTP endpoints: an operator describes the request, with places for arguments, and
// each call sends one request through the egress guard.
//
// An argument cannot change the rest of the request: in a path it is one segment, in a query one value, in a body one
// JSON value. The description refers to secrets by name, and they are removed from responses.
package httpcall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/egress"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/internal/eventline"
	"github.com/agentbus/agentbus/pkg/tool/internal/template"
)

const (
	// Timeout is the default time limit of a call.
	Timeout = 30 * time.Second
	// maxAnswer bounds what is read of an answer; MaxOutput of the tool bounds what the model reads of that.
	maxAnswer = 4 << 20
	// maxComplaint is how much of an answer that reports an error the model reads.
	maxComplaint = 2000
)

// Request describes the requests of a tool. For the texts see [template.Parse].
type Request struct {
	Method  string // "" = GET
	URL     string // its path may contain arguments
	Query   map[string]string
	Headers map[string]string
	Body    any    // nil = all arguments, where the method has a body
	Result  string // JSON pointer to what the model reads of the answer; "" = all of it
	Events  bool   // lines of the answer that begin with "::event " are events, and not part of the result
}

// New returns the tool that spec describes. It reaches public addresses, and those of allow. An error describes what is
// wrong in the description.
func New(spec tool.Spec, request Request, allow egress.AllowList, secrets template.Secrets) (tool.Tool, error) {
	if spec.Timeout == 0 {
		spec.Timeout = Timeout
	}
	f, err := newForm(request, secrets)
	if err != nil {
		return nil, err
	}
	redirects := 0 // the guard's default
	if f.method != http.MethodGet {
		redirects = -1 // what has taken effect must not do so again elsewhere
	}
	e := &endpoint{spec: spec, form: f, events: request.Events, client: egress.NewClient(egress.Options{
		PlainHTTP: true, Ports: ports(request.URL), Allow: allow, Timeout: spec.Timeout, MaxBody: maxAnswer, MaxRedirects: redirects,
	})}
	return tool.Func(spec, e.call), nil
}

// ports returns the ports that a tool may reach: the usual ones, and the one that the operator wrote into its URL.
func ports(address string) []uint16 {
	open := []uint16{80, 443}
	_, rest, _ := strings.Cut(address, "://")
	authority, _, _ := strings.Cut(rest, "/")
	_, text, err := net.SplitHostPort(authority)
	if err != nil {
		return open // without a port
	}
	if port, err := strconv.ParseUint(text, 10, 16); err == nil && port > 0 {
		open = append(open, uint16(port))
	}
	return open
}

// Effect is the default effect of calls with a method.
func Effect(method string) tool.Effect {
	if method == "" || method == http.MethodGet {
		return tool.EffectNone
	}
	return tool.EffectUnsafe
}

type endpoint struct {
	spec   tool.Spec
	form   form
	events bool
	client *http.Client
}

func (e *endpoint) call(ctx context.Context, args template.Args, call tool.Call) (tool.Result, error) {
	request, err := e.form.request(ctx, args, call.Context)
	if err != nil {
		return tool.Result{}, err
	}
	if e.spec.Effect == tool.EffectIdempotent && request.Header.Get("Idempotency-Key") == "" {
		request.Header.Set("Idempotency-Key", call.ID)
	}
	response, err := e.client.Do(request)
	if err != nil {
		return tool.Result{}, e.explain(ctx, request.URL, err)
	}
	defer func() { _ = response.Body.Close() }() // what was read is complete or already an error
	var body bytes.Buffer
	lines := eventline.Writer{Next: &body, Emit: call.Show, Clean: e.form.hide}
	var into io.Writer = &body
	if e.events {
		into = &lines
	}
	if _, err := io.Copy(into, response.Body); err != nil {
		return tool.Result{Events: lines.Events}, e.explain(ctx, request.URL, err)
	}
	_ = lines.Flush() // a buffer never fails
	result, err := e.read(response, body.Bytes())
	result.Events = lines.Events
	return result, err
}

func (e *endpoint) read(response *http.Response, body []byte) (tool.Result, error) {
	body = e.form.hide(bytes.ToValidUTF8(body, []byte("\uFFFD")))
	status := response.StatusCode
	if lost := status == http.StatusBadGateway || status == http.StatusGatewayTimeout; lost && e.spec.Effect == tool.EffectUnsafe {
		return tool.Result{}, fmt.Errorf("%s answers %s: the outcome of the call is unknown", response.Request.URL.Host, response.Status)
	}
	summary := fmt.Sprintf("%s, %d bytes", response.Status, len(body))
	if status < 200 || status > 299 {
		text := strings.ToValidUTF8(string(body[:min(len(body), maxComplaint)]), "")
		return tool.Result{Summary: summary},
			apierr.New(apierr.ToolError, "%s answers HTTP %s: %s", response.Request.URL.Host, response.Status, text)
	}
	content, err := e.form.result(body)
	if err != nil {
		return tool.Result{}, err
	}
	content = string(e.form.hide([]byte(content))) // once more: JSON may have escaped what was hidden in it
	return tool.Result{Content: content, Summary: summary}, nil
}

// explain converts a failed exchange to an error for the model, without resolved addresses and without secrets of a
// URL. If the call may have taken effect, the error has no code: see [tool.Tool].
func (e *endpoint) explain(ctx context.Context, u *url.URL, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if denied, ok := errors.AsType[*egress.DeniedError](err); ok {
		return apierr.Wrap(err, apierr.ToolError, "%s", denied)
	}
	sent := !errors.As(err, new(*net.DNSError)) && !isDial(err)
	switch {
	case sent && e.spec.Effect == tool.EffectUnsafe:
		if told, ok := errors.AsType[*url.Error](err); ok {
			err = told.Err // without the URL
		}
		return fmt.Errorf("call %s: %w", u.Host, err)
	case errors.Is(err, egress.ErrBodyTooLarge):
		return apierr.Wrap(err, apierr.ToolError, "%.100q: the answer is larger than %d bytes", u.Host, maxAnswer)
	case isTimeout(err):
		return apierr.Wrap(err, apierr.ToolError, "%.100q did not answer within %v; try again later", u.Host, e.spec.Timeout)
	default:
		return apierr.Wrap(err, apierr.ToolError, "%.100q cannot be reached; try again later", u.Host)
	}
}

func isDial(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

func isTimeout(err error) bool {
	slow, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && slow.Timeout()
}
