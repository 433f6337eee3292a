// Package httpget is a built-in tool: it reads a page of text from the Internet, through the egress guard.
package httpget

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/egress"
	"github.com/agentbus/agentbus/pkg/tool"
)

// Name is the tool's name.
const Name = "http_get"

const (
	timeout = 30 * time.Second
	maxText = 256 << 10 // bytes that a model gets of a page
)

const schema = `{
	"type": "object",
	"properties": {
		"url": {
			"type": "string", "minLength": 1, "maxLength": 2048,
			"description": "Address of a public page, such as https://example.com/data.json."
		}
	},
	"required": ["url"],
	"additionalProperties": false
}`

type args struct {
	URL string `json:"url"`
}

// New returns the tool. It reaches public addresses, and those of allow.
func New(allow egress.AllowList) tool.Tool {
	spec := tool.Spec{
		Name:        Name,
		Description: "Fetches a URL of the public Internet with GET and gives back its text: HTML, JSON, XML, CSV, plain text.",
		Schema:      json.RawMessage(schema),
		Effect:      tool.EffectNone,
		Approval:    tool.ApprovalNever,
		Timeout:     timeout,
	}
	client := egress.NewClient(egress.Options{PlainHTTP: true, Allow: allow, Timeout: timeout})
	return tool.Func(spec, func(ctx context.Context, in args, _ tool.Call) (tool.Result, error) {
		return fetch(ctx, client, in.URL)
	})
}

func fetch(ctx context.Context, client *http.Client, address string) (tool.Result, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return tool.Result{}, apierr.Wrap(err, apierr.ToolError, "%.200q is not a URL; expected one such as https://example.com/page", address)
	}
	request.Header.Set("User-Agent", "agentbus-http_get/1.0")
	request.Header.Set("Accept", "text/*, application/json, application/xml;q=0.9, */*;q=0.1")
	response, err := client.Do(request)
	if err != nil {
		return tool.Result{}, explain(ctx, request.URL, err)
	}
	defer func() { _ = response.Body.Close() }() // what was read is complete or already an error
	if kind := response.Header.Get("Content-Type"); !isText(kind) {
		return tool.Result{}, apierr.New(apierr.ToolError, "%s answers %s with %.100q; only text can be read",
			request.URL.Host, response.Status, kind)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxText+1))
	if err != nil {
		return tool.Result{}, explain(ctx, request.URL, err)
	}
	return render(response, body), nil
}

// render puts an unsuccessful status before the text of a response, so that a model does not read an error page as the
// page.
func render(response *http.Response, body []byte) tool.Result {
	size, note := fmt.Sprintf("%d bytes", len(body)), ""
	if len(body) > maxText {
		body = body[:maxText]
		size = fmt.Sprintf("the first %d bytes", maxText)
		note = fmt.Sprintf("\n[cut: the page is longer than %d bytes]", maxText)
	}
	text := strings.ToValidUTF8(string(body), "\uFFFD") + note
	if response.StatusCode < 200 || response.StatusCode > 299 {
		text = "HTTP " + response.Status + "\n\n" + text
	}
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil {
		kind = "text"
	}
	return tool.Result{Content: text, Summary: fmt.Sprintf("%s, %s, %s", response.Status, kind, size)}
}

// explain converts a failed exchange to an error for the model, without resolved addresses.
func explain(ctx context.Context, u *url.URL, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if denied, ok := errors.AsType[*egress.DeniedError](err); ok {
		return apierr.Wrap(err, apierr.ToolError, "%s", denied)
	}
	if errors.Is(err, egress.ErrBodyTooLarge) {
		return apierr.Wrap(err, apierr.ToolError, "%.100q: %v", u.Host, egress.ErrBodyTooLarge)
	}
	if slow, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && slow.Timeout() {
		return apierr.Wrap(err, apierr.ToolError, "%.100q did not answer within %v", u.Host, timeout)
	}
	return apierr.Wrap(err, apierr.ToolError, "%.100q cannot be reached; check the spelling of the address", u.Host)
}

// isText reports whether a content type is one that a model can read. Without one the body is taken for text.
func isText(contentType string) bool {
	if contentType == "" {
		return true
	}
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	if charset := strings.ToLower(parameters["charset"]); charset != "" && charset != "utf-8" && charset != "us-ascii" &&
		!strings.HasPrefix(charset, "iso-8859") && !strings.HasPrefix(charset, "windows-125") {
		return false // in these others not even ASCII can be read
	}
	switch kind {
	case "application/json", "application/xml", "application/javascript", "application/x-ndjson", "application/yaml":
		return true
	}
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml")
}
