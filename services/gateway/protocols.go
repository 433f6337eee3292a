package gateway

import (
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/a2a"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/agui"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/aisdk"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/durablestreams"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/langgraph"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/native"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/natsagents"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/openai"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/tarko"
	"github.com/agentbus/agentbus/services/gateway/internal/webhook"
)

// protocols lists the protocols that the gateway serves. The first one encodes the errors of paths that none of them serves.
func protocols(s protocol.Services) ([]protocol.Protocol, error) {
	t, err := tarko.New(s)
	if err != nil {
		return nil, err
	}
	return []protocol.Protocol{
		native.New(s),
		t,
		agui.New(s),
		aisdk.New(s),
		openai.New(s),
		langgraph.New(s),
		a2a.New(s),
		durablestreams.New(s),
		natsagents.New(s),
	}, nil
}

// tasksOf returns the protocol that makes notifications about tasks.
func tasksOf(served []protocol.Protocol) webhook.Tasks {
	for _, p := range served {
		if tasks, ok := p.(webhook.Tasks); ok {
			return tasks
		}
	}
	return nil
}
