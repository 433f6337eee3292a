package httpcall

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/tool/internal/template"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// form is a request with places.
type form struct {
	method  string
	address template.Text
	query   map[string]template.Text
	headers map[string]template.Text
	body    any              // as [Request.Body], with template.Text for its texts
	pointer jsontext.Pointer // to the result
	secrets [][]byte         // that were put in
	context []string         // names of the values of the request's context that have places
}

// shortSecret is the length below which a secret is not searched for in answers: it would be found everywhere.
const shortSecret = 6

func newForm(r Request, secrets template.Secrets) (f form, err error) {
	f.method = cmp.Or(r.Method, http.MethodGet)
	switch f.method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return f, fmt.Errorf("method %q is not one of GET, POST, PUT, PATCH and DELETE", f.method)
	}
	noted := func(name string) (string, error) {
		value, err := secrets(name)
		if len(value) >= shortSecret {
			f.secrets = append(f.secrets, []byte(value))
		}
		return value, err
	}
	if f.address, err = template.Parse(r.URL, noted); err != nil {
		return f, fmt.Errorf("url: %w", err)
	}
	if f.query, err = texts("query", r.Query, noted); err != nil {
		return f, err
	}
	if f.headers, err = texts("headers", r.Headers, noted); err != nil {
		return f, err
	}
	if f.body, err = tree(r.Body, noted); err != nil {
		return f, fmt.Errorf("body: %w", err)
	}
	f.context = template.ContextNames(f.texts()...)
	if f.pointer = jsontext.Pointer(r.Result); !f.pointer.IsValid() {
		return f, fmt.Errorf("result: %q is not a JSON pointer (RFC 6901); write one such as /data/items", r.Result)
	}
	return f, nil
}

// texts lists the texts of the form.
func (f form) texts() []template.Text {
	all := append([]template.Text{f.address}, slices.Collect(maps.Values(f.query))...)
	return append(append(all, slices.Collect(maps.Values(f.headers))...), leaves(f.body)...)
}

// leaves lists the texts in a JSON value.
func leaves(value any) []template.Text {
	var all []template.Text
	switch v := value.(type) {
	case template.Text:
		all = append(all, v)
	case []any:
		for _, item := range v {
			all = append(all, leaves(item)...)
		}
	case map[string]any:
		for _, member := range v {
			all = append(all, leaves(member)...)
		}
	}
	return all
}

func texts(what string, all map[string]string, secrets template.Secrets) (map[string]template.Text, error) {
	parsed := make(map[string]template.Text, len(all))
	for name, text := range all {
		t, err := template.Parse(text, secrets)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", what, name, err)
		}
		parsed[name] = t
	}
	return parsed, nil
}

// tree parses the texts in a JSON value.
func tree(value any, secrets template.Secrets) (any, error) {
	switch v := value.(type) {
	case string:
		return template.Parse(v, secrets)
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			var err error
			if list[i], err = tree(item, secrets); err != nil {
				return nil, fmt.Errorf("%d: %w", i, err)
			}
		}
		return list, nil
	case map[string]any:
		object := make(map[string]any, len(v))
		for name, member := range v {
			var err error
			if object[name], err = tree(member, secrets); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		return object, nil
	default:
		return value, nil
	}
}

// request fills the form with the arguments of a call and values of its request's context.
func (f form) request(ctx context.Context, own template.Args, values json.RawMessage) (*http.Request, error) {
	args := own.With(values, f.context)
	address, err := f.url(args)
	if err != nil {
		return nil, err
	}
	body, err := f.content(own, args)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, f.method, address, body)
	if err != nil {
		return nil, apierr.Wrap(err, apierr.ToolError, "the arguments make no URL")
	}
	request.Header.Set("User-Agent", "agentbus")
	request.Header.Set("Accept", "application/json, text/*;q=0.9, */*;q=0.1")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, text := range f.headers {
		if len(text.Missing(args)) > 0 {
			continue
		}
		value, err := text.Fill(args, template.Plain)
		if err != nil {
			return nil, err
		}
		if strings.ContainsFunc(value, unicode.IsControl) {
			return nil, apierr.New(apierr.ToolError, "the arguments %q must not contain control characters", text.Arguments())
		}
		request.Header.Set(name, value)
	}
	return request, nil
}

// url fills the address. An argument is one segment of its path, or a piece of one, and never leads elsewhere.
func (f form) url(args template.Args) (string, error) {
	for _, name := range f.address.Arguments() {
		if args.Has(name) && string(args[name]) == `""` {
			return "", apierr.New(apierr.ToolError, "the argument %q must not be empty", name)
		}
	}
	address, err := f.address.Fill(args, url.PathEscape)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", apierr.Wrap(err, apierr.ToolError, "the arguments make no URL")
	}
	for segment := range strings.SplitSeq(u.EscapedPath(), "/") {
		if segment == "." || segment == ".." {
			return "", apierr.New(apierr.ToolError, "the arguments %q must not be %q", f.address.Arguments(), segment)
		}
	}
	query := url.Values{}
	for name, text := range f.query {
		if len(text.Missing(args)) > 0 {
			continue
		}
		value, err := text.Fill(args, template.Plain)
		if err != nil {
			return "", err
		}
		query.Set(name, value)
	}
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// content is the body, nil when the method has none.
func (f form) content(own, args template.Args) (io.Reader, error) {
	if f.method == http.MethodGet || f.method == http.MethodDelete && f.body == nil {
		return nil, nil //nolint:nilnil // a request without a body
	}
	var value any = own
	if f.body != nil {
		var err error
		if value, _, err = fill(f.body, args); err != nil {
			return nil, err
		}
	}
	text, err := jsonv2.Marshal(value, jsonv2.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode the body: %w", err)
	}
	return bytes.NewReader(text), nil
}

// fill gives a JSON value with the arguments in their places. A text that is one argument becomes its value; where that is
// missing, so is the text.
func fill(value any, args template.Args) (filled any, there bool, err error) {
	switch v := value.(type) {
	case template.Text:
		name, whole := v.Argument()
		if whole {
			return args[name], args.Has(name), nil
		}
		text, err := v.Fill(args, template.Plain)
		return text, true, err
	case []any:
		list := make([]any, 0, len(v))
		for _, item := range v {
			filled, there, err := fill(item, args)
			if err != nil {
				return nil, false, err
			}
			if there {
				list = append(list, filled)
			}
		}
		return list, true, nil
	case map[string]any:
		object := make(map[string]any, len(v))
		for name, member := range v {
			filled, there, err := fill(member, args)
			if err != nil {
				return nil, false, err
			}
			if there {
				object[name] = filled
			}
		}
		return object, true, nil
	default:
		return value, true, nil
	}
}

// hide takes the secrets out of an answer that repeats them.
func (f form) hide(text []byte) []byte {
	for _, secret := range f.secrets {
		text = bytes.ReplaceAll(text, secret, []byte("(secret)"))
	}
	return text
}

// result is the part of an answer that the model reads: a string as it is, anything else as JSON.
func (f form) result(body []byte) (string, error) {
	if f.pointer == "" {
		return string(body), nil
	}
	value := json.RawMessage(body)
	var at jsontext.Pointer
	for token := range f.pointer.Tokens() {
		at = at.AppendToken(token)
		next, ok := child(value, token)
		if !ok {
			return "", apierr.New(apierr.ToolError, "the answer has no %q", at)
		}
		value = next
	}
	var text string
	if jsontext.Value(value).Kind() == '"' && jsonv2.Unmarshal(value, &text) == nil {
		return text, nil
	}
	return string(value), nil
}

// child returns the member or element of a JSON value that one token of a JSON pointer names.
func child(value json.RawMessage, token string) (json.RawMessage, bool) {
	switch jsontext.Value(value).Kind() {
	case '{':
		var object map[string]json.RawMessage
		if jsonv2.Unmarshal(value, &object) != nil {
			return nil, false
		}
		member, ok := object[token]
		return member, ok
	case '[':
		var list []json.RawMessage
		at, err := strconv.Atoi(token)
		if err != nil || strconv.Itoa(at) != token || jsonv2.Unmarshal(value, &list) != nil || at < 0 || at >= len(list) {
			return nil, false
		}
		return list[at], true
	default:
		return nil, false
	}
}
