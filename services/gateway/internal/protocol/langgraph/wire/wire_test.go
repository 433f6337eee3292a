package wire_test

import (
	"testing"

	"github.com/agentbus/agentbus/services/gateway/internal/protocol/langgraph/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/protocoltest"
)

var update = protocoltest.Update()

func TestConformance(t *testing.T) {
	t.Parallel()
	all, err := wire.ParseModes([]string{"values", "updates", "messages", "messages-tuple", "custom", "tools", "debug"})
	if err != nil {
		t.Fatal(err)
	}
	protocoltest.Run(t, wire.Codec{}, update,
		protocoltest.Format{Name: "values"}, protocoltest.Format{Name: "all modes", Dialect: wire.Codec{Modes: all}},
		protocoltest.Format{Name: "thread protocol", Dialect: everyChannel()})
}
