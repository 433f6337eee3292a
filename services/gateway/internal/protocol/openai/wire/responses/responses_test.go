package responses_test

import (
	"testing"

	"github.com/agentbus/agentbus/services/gateway/internal/protocol/openai/wire/responses"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/protocoltest"
)

var update = protocoltest.Update()

func TestCodec(t *testing.T) {
	t.Parallel()
	protocoltest.Run(t, responses.Codec{}, update, protocoltest.Format{Name: "sse"})
}
