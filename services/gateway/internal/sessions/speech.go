package sessions

import (
	"github.com/agentbus/agentbus/services/gateway/internal/api"
	"github.com/agentbus/agentbus/services/gateway/internal/dialect"
)

// Speech is Tarko's dialect as the routes want it written.
type Speech struct {
	Query           dialect.Dialect // the stream of one query: flat (S4), as Tarko's server sends it
	Protocol        dialect.Dialect // the same, nested (S0), with format=protocol
	Session         dialect.Dialect // the stream of a session, flat
	SessionProtocol dialect.Dialect // the same, nested
	Message         dialect.Dialect // the messages of a WebSocket, flat
	MessageProtocol dialect.Dialect // the same, nested
}

// formatProtocol asks for the nested events of S0 instead of the flat ones that Tarko's server sends.
const formatProtocol = "protocol"

// of chooses by what the client asks for.
func (Speech) of(c *api.Call, flat, protocol dialect.Dialect) (dialect.Dialect, error) {
	nested, err := wantsProtocol(c)
	if nested {
		return protocol, err
	}
	return flat, err
}

func wantsProtocol(c *api.Call) (bool, error) {
	switch format := c.Query().Get("format"); format {
	case "", "flat":
		return false, nil
	case formatProtocol:
		return true, nil
	default:
		return false, invalid("format=%.40q: use protocol, or leave it out", format)
	}
}
