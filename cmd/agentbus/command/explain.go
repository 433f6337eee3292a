package command

import (
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/agentbus/agentbus/cmd/agentbus/internal/screen"
	"github.com/agentbus/agentbus/pkg/apierr"
)

// explain returns an error as text for a person: the cause and the remedy.
func explain(err error) string {
	if f, ok := errors.AsType[*apierr.Error](err); ok {
		return screen.Clean(errorText(f))
	}
	refused, isURL := errors.AsType[*url.Error](err)
	_, isNet := errors.AsType[*net.OpError](err)
	if isURL && isNet {
		if u, parseErr := url.Parse(refused.URL); parseErr == nil {
			return "nothing answers at " + u.Scheme + "://" + u.Host + ": start it with `agentbus dev`, or say with --url where it is (" +
				screen.Clean(refused.Err.Error()) + ")"
		}
	}
	return screen.Clean(err.Error())
}

func errorText(f *apierr.Error) string {
	message := strings.NewReplacer(
		"GET /v1/agents lists the agents", "`agentbus agents` lists the agents",
		`; send one header "Authorization: Bearer ak_<id>_<secret>"`, "",
		`: send one header "Authorization: Bearer ak_<id>_<secret>"`, "",
	).Replace(f.Message)
	text := message + " (" + string(f.Code) + ")"
	switch f.Code {
	case apierr.AuthFailed:
		text += "; give a key with --key or AGENTBUS_KEY"
	case apierr.ThreadBusy:
		text += "; follow it with `agentbus tail " + f.RequestID + "` or stop it with `agentbus abort " + f.RequestID + "`"
	default: // the message has the remedy
	}
	return text
}
