package telemetry

// The keys of log attributes that identify something. Packages that do not import telemetry write the same names.
const (
	LogRequest  = "requestId" // as the span attribute agentbus.request.id
	LogThread   = "threadId"
	LogTenant   = "tenant"
	LogAgent    = "agent"
	LogTool     = "tool"
	LogToolCall = "toolCallId"
	LogTask     = "taskId"
	LogAction   = "actionId"
	LogSteer    = "steerId"
	LogKey      = "keyId" // of an API key
)
