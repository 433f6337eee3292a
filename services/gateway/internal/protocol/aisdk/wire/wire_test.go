package wire_test

import (
	"testing"

	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/aisdk/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/protocoltest"
)

var update = protocoltest.Update()

func TestConformance(t *testing.T) {
	t.Parallel()
	protocoltest.Run(t, wire.Codec{}, update, protocoltest.Format{Name: "sse"},
		protocoltest.Format{Name: "sse with the output of tools", Options: codec.Options{ToolOutput: func() bool { return true }}})
}
