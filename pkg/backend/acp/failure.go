package acp

import (
	"strings"

	protocol "github.com/agentbus/agentbus/pkg/acp"
	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/go-json-experiment/json"
)

// maxDetail bounds the part of a program's error that a message quotes, in bytes.
const maxDetail = 300

// detail returns the message of an error with its data, where many programs put the cause.
func detail(e *protocol.Error) string {
	text := e.Message
	if e.Data != nil {
		if data, err := json.Marshal(e.Data); err == nil {
			text += ": " + string(data)
		}
	}
	return text
}

// failure is a failure that may pass if its words say so.
func failure(cause error, name, why string) *apierr.Error {
	err := apierr.Wrap(cause, apierr.AgentError, "%s failed%s", name, because(why))
	low := strings.ToLower(why)
	for _, word := range passing() {
		err.Retryable = err.Retryable || strings.Contains(low, word)
	}
	return err
}

func retryable(e *apierr.Error) error {
	e.Retryable = true
	return e
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + oneLine(why)
}

func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxDetail {
		text = strings.ToValidUTF8(text[:maxDetail], "") + " […]"
	}
	return text
}
