package tarko

import (
	"github.com/agentbus/agentbus/services/gateway/internal/api"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
)

// Encodings is Tarko's dialect as the routes want it written.
type Encodings struct {
	Query           codec.Codec // the stream of one query: flat (S4), as Tarko's server sends it
	Protocol        codec.Codec // the same, nested (S0), with format=protocol
	Session         codec.Codec // the stream of a session, flat
	SessionProtocol codec.Codec // the same, nested
	Message         codec.Codec // the messages of a WebSocket, flat
	MessageProtocol codec.Codec // the same, nested
}

// formatProtocol asks for the nested events of S0 instead of the flat ones that Tarko's server sends.
const formatProtocol = "protocol"

// choose chooses by what the client asks for.
func (Encodings) choose(c *api.Call, flat, protocol codec.Codec) (codec.Codec, error) {
	nested, err := wantsNested(c)
	if nested {
		return protocol, err
	}
	return flat, err
}

func wantsNested(c *api.Call) (bool, error) {
	switch format := c.Query().Get("format"); format {
	case "", "flat":
		return false, nil
	case formatProtocol:
		return true, nil
	default:
		return false, invalid("format=%.40q: use protocol, or leave it out", format)
	}
}
