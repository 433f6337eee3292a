package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
	"github.com/gin-gonic/gin"
)

// headerTrace names the trace of a request in its response.
const headerTrace = "X-Trace-Id"

// statusOf returns the HTTP status of an error, as the agent event protocol maps it.
func statusOf(code apierr.Code) int {
	switch code {
	case apierr.InvalidMessageFormat, apierr.InvalidActionID:
		return http.StatusBadRequest
	case apierr.AuthFailed:
		return http.StatusUnauthorized
	case apierr.ThreadAccessDenied:
		return http.StatusForbidden
	case apierr.ThreadNotFound, apierr.AgentNotFound, apierr.RequestNotFound, apierr.ObjectNotFound, apierr.RouteNotFound:
		return http.StatusNotFound
	case apierr.ThreadBusy, apierr.RequestFinished:
		return http.StatusConflict
	case apierr.MessageTooLarge:
		return http.StatusRequestEntityTooLarge
	case apierr.IdempotencyMismatch:
		return http.StatusUnprocessableEntity
	case apierr.RateLimitExceeded:
		return http.StatusTooManyRequests
	case apierr.Unavailable:
		return http.StatusServiceUnavailable
	case apierr.StreamTimeout:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}

// fail writes err as the response. If the response has begun, or the client has disconnected, it aborts the connection instead:
// a clean end would look like success.
func (a *API) fail(c *gin.Context, err error) {
	ctx := c.Request.Context()
	if errors.Is(err, stream.ErrTruncated) || errors.Is(err, context.Canceled) && ctx.Err() != nil || c.Writer.Written() {
		panic(http.ErrAbortHandler)
	}
	f := apierr.From(err)
	status := statusOf(f.Code)
	switch {
	case errors.Is(err, protocol.ErrContentEncoding):
		status = http.StatusUnsupportedMediaType
	case errors.Is(err, errOrigin):
		status = http.StatusForbidden
	case errors.Is(err, protocol.ErrUpgradeRequired):
		status = http.StatusUpgradeRequired
	}
	if status >= http.StatusInternalServerError {
		a.Log.ErrorContext(ctx, "request failed", "route", c.FullPath(), "error", err)
	}
	a.refuse(c, f, status)
}

// refuse writes f as the route's protocol encodes it, and aborts the chain of handlers.
func (a *API) refuse(c *gin.Context, f *apierr.Error, status int) {
	h := c.Writer.Header()
	requestID, threadID := h.Get(protocol.HeaderRequestID), h.Get(protocol.HeaderThreadID)
	if f.RequestID != "" {
		h.Set(protocol.HeaderRequestID, f.RequestID)
	}
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if wait := retryAfter(f); wait > 0 {
		h.Set("Retry-After", strconv.Itoa(wait))
	}
	if h.Get("Connection") == "keep-alive" { // set for a stream that did not start
		h.Del("Connection")
	}
	contentType, body := a.protocolOf(c).EncodeError(codec.ErrorResponse{
		Error: f, RequestID: requestID, ThreadID: threadID, At: time.Now(),
	})
	c.Data(status, contentType, body)
	c.Abort()
}

// retryAfter returns the Retry-After header in seconds; 0 = no header.
func retryAfter(f *apierr.Error) int {
	if f.RetryAfter > 0 {
		return int(math.Ceil(f.RetryAfter.Seconds()))
	}
	if f.Code == apierr.Unavailable {
		return 1
	}
	return 0
}

// recover converts a panic into internal_error. It repeats the panic that aborts a connection.
func (a *API) recover(c *gin.Context) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(http.ErrAbortHandler)
		}
		a.Log.ErrorContext(c.Request.Context(), "panic", "route", c.FullPath(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		if c.Writer.Written() {
			panic(http.ErrAbortHandler)
		}
		f := apierr.From(errors.New("panic"))
		a.refuse(c, f, statusOf(f.Code))
	}()
	c.Next()
}

func (a *API) noRoute(c *gin.Context) {
	f := apierr.New(apierr.RouteNotFound, "there is nothing at this path; GET /openapi.yaml lists what there is")
	a.refuse(c, f, http.StatusNotFound)
}

func (a *API) noMethod(c *gin.Context) {
	f := apierr.New(apierr.RouteNotFound, "%.16s is not possible here; GET /openapi.yaml lists what is", c.Request.Method)
	a.refuse(c, f, http.StatusMethodNotAllowed)
}
