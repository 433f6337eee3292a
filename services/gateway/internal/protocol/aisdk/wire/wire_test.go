package wire_test

import (
	"testing"

	"github.com/agentbus/agentbus/services/gateway/internal/protocol/aisdk/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/protocoltest"
)

var update = protocoltest.Update()

func TestConformance(t *testing.T) {
	t.Parallel()
	protocoltest.Run(t, wire.Codec{}, update, protocoltest.Format{Name: "sse"})
}
