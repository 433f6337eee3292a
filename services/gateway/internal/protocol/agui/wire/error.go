package wire

import (
	"cmp"

	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/go-json-experiment/json"
)

// EncodeError is a RUN_ERROR event as JSON: the published client shows the whole body of a response that is not a success.
func (Codec) EncodeError(f codec.ErrorResponse) (contentType string, body []byte) {
	about := Metadata{"retryable": f.Retryable}
	if f.Error.RequestID != "" {
		about["runningRequestId"] = f.Error.RequestID
	}
	if f.RequestID != "" {
		about["requestId"] = f.RequestID
	}
	body, err := json.Marshal(Event{
		Type: RunError, Timestamp: f.At.UnixMilli(), Message: cmp.Or(f.Message, string(f.Code)), Code: string(f.Code), Metadata: about,
	}, options)
	if err != nil { // a message that is not UTF-8
		body = []byte(`{"type":"RUN_ERROR","message":"an internal error occurred","code":"internal_error"}`)
	}
	return "application/json", append(body, '\n')
}
