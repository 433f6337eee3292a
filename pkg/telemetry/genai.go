package telemetry

import "go.opentelemetry.io/otel/attribute"

// The names of the semantic conventions for generative AI. They are not stable yet, so they are defined here once.
// Contents of messages, arguments and results are never attributes.
const (
	// Spans and metrics.
	GenAIOperationName        = attribute.Key("gen_ai.operation.name") // see the operations below
	GenAIProviderName         = attribute.Key("gen_ai.provider.name")  // openai, anthropic
	GenAIAgentName            = attribute.Key("gen_ai.agent.name")
	GenAIConversationID       = attribute.Key("gen_ai.conversation.id") // the thread
	GenAIRequestModel         = attribute.Key("gen_ai.request.model")
	GenAIRequestMaxTokens     = attribute.Key("gen_ai.request.max_tokens")
	GenAIResponseModel        = attribute.Key("gen_ai.response.model")
	GenAIResponseID           = attribute.Key("gen_ai.response.id")
	GenAIFinishReasons        = attribute.Key("gen_ai.response.finish_reasons") // a list
	GenAIInputTokens          = attribute.Key("gen_ai.usage.input_tokens")
	GenAIOutputTokens         = attribute.Key("gen_ai.usage.output_tokens")
	GenAICacheReadInputTokens = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	GenAITokenType            = attribute.Key("gen_ai.token.type") // input, output; of GenAITokenUsage
	GenAIToolName             = attribute.Key("gen_ai.tool.name")
	GenAIToolCallID           = attribute.Key("gen_ai.tool.call.id")
	GenAIToolType             = attribute.Key("gen_ai.tool.type") // function, extension
	ErrorType                 = attribute.Key("error.type")       // a fault code

	// Ours.
	RequestID  = attribute.Key("agentbus.request.id")
	ActionID   = attribute.Key("agentbus.action.id")
	TenantID   = attribute.Key("agentbus.tenant")
	ToolStatus = attribute.Key("agentbus.tool.status")
)

// The operations: values of GenAIOperationName, and the first word of their span's name.
const (
	OperationInvokeAgent = "invoke_agent"
	OperationChat        = "chat"
	OperationExecuteTool = "execute_tool"
)

// The metrics. Durations are in seconds, histograms all.
const (
	GenAIOperationDuration   = "gen_ai.client.operation.duration"
	GenAITokenUsage          = "gen_ai.client.token.usage" //nolint:gosec // tokens of a model
	GenAITimeToFirstChunk    = "gen_ai.client.operation.time_to_first_chunk"
	GenAIExecuteToolDuration = "gen_ai.execute_tool.duration"
)

// GenAIDurationBuckets are the bucket boundaries that the conventions advise for durations, in seconds.
func GenAIDurationBuckets() []float64 {
	return []float64{.01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
}
