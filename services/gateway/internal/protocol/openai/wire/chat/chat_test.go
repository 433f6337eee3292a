package chat_test

import (
	"testing"

	"github.com/agentbus/agentbus/services/gateway/internal/protocol/openai/wire/chat"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/protocoltest"
)

var update = protocoltest.Update()

func TestCodec(t *testing.T) {
	t.Parallel()
	protocoltest.Run(t, chat.Codec{Usage: true}, update, protocoltest.Format{Name: "sse"})
}
