package native

import (
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
)

// limitParam reads limit, a number from 1 to most, from the URL; 0 without it.
func limitParam(x *protocol.Exchange, most int) (int, error) {
	text := x.Query().Get("limit")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, apierr.New(apierr.InvalidMessageFormat, "limit=%.40q must be a number from 1 to %d", text, most)
	}
	return n, nil
}

// timeParam reads a time from the URL; the zero time without the parameter.
func timeParam(x *protocol.Exchange, name string) (time.Time, error) {
	text := x.Query().Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, apierr.New(apierr.InvalidMessageFormat, "%s=%.40q must be a time like 2026-01-31T12:00:00Z", name, text)
	}
	return t, nil
}
