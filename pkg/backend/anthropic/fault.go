package anthropic

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/go-json-experiment/json"
)

// end judges the answer once the stream is over: message_stop is the marker of a whole one.
func (r *reader) end(api upstream.API, res *http.Response, err error) error {
	if r.stopped && r.outcome.Finish != "" {
		return nil
	}
	if r.stopped && r.unknown != "" {
		return apierr.New(apierr.AgentError, "%s ended the answer for a reason that this version does not support: %.64q", api.Name, r.unknown)
	}
	if refusal, ok := errors.AsType[*sdk.Error](err); ok {
		return refused(api, refusal)
	}
	if r.stopped {
		return api.Malformed(errors.New("the answer has no stop reason"))
	}
	return api.Broken(res, r.events, err)
}

// refused converts an error response, or an error event of a stream. An error event has a success status; its type
// names the error.
func refused(api upstream.API, e *sdk.Error) *apierr.Error {
	var body struct {
		Error struct {
			Type    sdk.ErrorType `json:"type"`
			Message string        `json:"message"`
		} `json:"error"`
	}
	status := e.StatusCode
	if err := json.Unmarshal([]byte(e.RawJSON()), &body); err != nil && status < http.StatusBadRequest {
		return api.Malformed(err)
	}
	if status < http.StatusBadRequest {
		status = statusOf(body.Error.Type)
	}
	f := api.Refused(status, e.Response.Header, body.Error.Message, e.RequestID)
	if body.Error.Type == sdk.ErrorTypeBillingError {
		return apierr.Wrap(fmt.Errorf("%w: %w", backend.ErrUnavailable, f), apierr.AgentError,
			"%s does not serve the account of %s; check its billing", api.Name, api.KeyEnv)
	}
	return f
}

func statusOf(kind sdk.ErrorType) int {
	switch kind {
	case sdk.ErrorTypeInvalidRequestError, sdk.ErrorTypeBillingError:
		return http.StatusBadRequest
	case sdk.ErrorTypeAuthenticationError:
		return http.StatusUnauthorized
	case sdk.ErrorTypePermissionError:
		return http.StatusForbidden
	case sdk.ErrorTypeNotFoundError:
		return http.StatusNotFound
	case "request_too_large":
		return http.StatusRequestEntityTooLarge
	case sdk.ErrorTypeRateLimitError:
		return http.StatusTooManyRequests
	case sdk.ErrorTypeOverloadedError:
		return upstream.StatusOverloaded
	default:
		return http.StatusInternalServerError
	}
}
