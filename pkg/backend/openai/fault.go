package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	jsonv2 "github.com/go-json-experiment/json"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
)

// outOfQuota is the code of a 429 that waiting does not cure.
const outOfQuota = "insufficient_quota"

// fault says what became of an answer without an end.
func (r *reader) fault(api upstream.API, res *http.Response, err error) *apierr.Error {
	if refusal, ok := errors.AsType[*sdk.Error](err); ok {
		return refused(api, refusal)
	}
	if failure, ok := errors.AsType[*ssestream.StreamError](err); ok {
		return failed(api, failure.Event.Data)
	}
	return api.Broken(res, r.chunks, err)
}

func refused(api upstream.API, e *sdk.Error) *apierr.Error {
	f := api.Refused(e.StatusCode, e.Response.Header, e.Message, e.Response.Header.Get("X-Request-Id"))
	if e.Code == outOfQuota {
		return spent(api, f)
	}
	return f
}

// filtered reports whether a request was refused for its content, as Azure does.
func filtered(err error) bool {
	refusal, ok := errors.AsType[*sdk.Error](err)
	return ok && refusal.StatusCode == http.StatusBadRequest && refusal.Code == "content_filter"
}

// endAtQuota keeps the SDK from sending a request again for which the account has no quota: its status is that of a rate
// limit.
func endAtQuota(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(req)
	if err != nil || res.StatusCode != http.StatusTooManyRequests {
		return res, err
	}
	body, err := io.ReadAll(res.Body) // the client bounds the bodies of errors
	if err != nil {
		body = nil // the status is error enough
	}
	if err := res.Body.Close(); err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	if bytes.Contains(body, []byte(outOfQuota)) {
		res.Header.Set("X-Should-Retry", "false")
	}
	return res, nil
}

func spent(api upstream.API, cause error) *apierr.Error {
	return apierr.Wrap(fmt.Errorf("%w: %w", backend.ErrUnavailable, cause), apierr.AgentError,
		"the account of %s has used up its quota at %s; check its plan and billing", api.KeyEnv, api.Name)
}

// failed reads an error that came within the stream. Its code may be a word or, from some servers, an HTTP status.
func failed(api upstream.API, data []byte) *apierr.Error {
	var event struct {
		Error struct {
			Message string          `json:"message"`
			Type    string          `json:"type"`
			Code    json.RawMessage `json:"code"`
		} `json:"error"`
	}
	status := http.StatusInternalServerError
	if err := jsonv2.Unmarshal(data, &event); err != nil {
		return api.Refused(status, nil, "", "")
	}
	var number int
	if err := jsonv2.Unmarshal(event.Error.Code, &number); err == nil && number >= http.StatusBadRequest {
		status = number
	}
	var word string
	if err := jsonv2.Unmarshal(event.Error.Code, &word); err != nil {
		word = "" // a number, or absent
	}
	f := api.Refused(status, nil, event.Error.Message, "")
	switch {
	case word == outOfQuota:
		return spent(api, f)
	case word == "rate_limit_exceeded" || event.Error.Type == "rate_limit_error":
		return api.Refused(http.StatusTooManyRequests, nil, "", "")
	case event.Error.Type == "invalid_request_error":
		return api.Refused(http.StatusBadRequest, nil, event.Error.Message, "")
	default:
		return f
	}
}
