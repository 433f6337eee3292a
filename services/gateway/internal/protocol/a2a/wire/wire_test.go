package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/agentbus/agentbus/services/gateway/internal/protocol/a2a/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/protocoltest"
)

var update = protocoltest.Update()

func TestCodec(t *testing.T) {
	t.Parallel()
	protocoltest.Run(t, wire.Codec{}, update,
		protocoltest.Format{Name: "HTTP+JSON"},
		protocoltest.Format{Name: "JSON-RPC", Dialect: wire.Codec{Call: json.RawMessage(`"call-1"`)}},
	)
}
