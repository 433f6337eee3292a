"""The types of requests and events, as schemas/ describes them. Newer servers send further events and members: ignore them."""

from typing import Any, Literal, NotRequired, TypedDict

PROTOCOL_VERSION = "1.0"
"""The version of the agent event protocol. Additive changes keep it."""

EVENT_TYPES = ("metadata", "text", "thinking", "tool_call", "tool_result", "done", "error", "aborted", "continuation")
"""The events of the agent event protocol, which each client receives."""

EXTENDED_EVENT_TYPES = (
    "input",
    "claim",
    "plan",
    "notice",
    "final_answer",
    "usage",
    "custom",
    "context_compressed",
    "subagent",
    "tool_output",
)
"""The events that a client receives if it includes them."""

EventStage = Literal["start", "delta", "stop"]
ToolStatus = Literal["success", "error", "denied", "aborted", "unknown"]
ContinuationKind = Literal["tool", "approval", "input"]
FinishReason = Literal["stop", "length", "tool_calls", "action_required", "max_turns", "budget", "content_filter", "refusal"]


class UserContentBlock(TypedDict):
    """A piece of a message: a text, or an image or file by URL or with its data in base64."""

    type: Literal["text", "image", "file"]
    text: NotRequired[str]
    url: NotRequired[str]
    data: NotRequired[str]
    mediaType: NotRequired[str]
    name: NotRequired[str]


class InputMessage(TypedDict):
    id: NotRequired[str]
    role: Literal["user"]
    content: str | list[UserContentBlock]


class Decision(TypedDict):
    """What a client does about an action. success: it is allowed, answered or done."""

    status: Literal["success", "error", "denied"]
    result: NotRequired[Any]
    error: NotRequired[str]


class ActionResult(Decision):
    actionId: str


class RequestTool(TypedDict):
    """A tool that the client of a request runs."""

    name: str
    description: NotRequired[str]
    schema: NotRequired[dict[str, Any]]


class RequestOptions(TypedDict, total=False):
    temperature: float
    topP: float
    stop: list[str]
    maxTokens: int
    toolChoice: dict[str, Any]
    responseFormat: dict[str, Any]


class AgentRequest(TypedDict):
    """The body of a request. context can have the members actionResults and model; others are passed through to the agent."""

    messages: list[InputMessage]
    threadId: NotRequired[str]
    context: NotRequired[dict[str, Any]]
    tools: NotRequired[list[RequestTool]]
    options: NotRequired[RequestOptions]


class Usage(TypedDict):
    inputTokens: int
    outputTokens: int
    cachedInputTokens: NotRequired[int]
    cacheWriteTokens: NotRequired[int]
    reasoningTokens: NotRequired[int]
    costUsd: NotRequired[float]


class AssistantContentBlock(TypedDict):
    type: Literal["text", "thinking", "tool_use", "tool_result"]
    text: NotRequired[str]
    thinking: NotRequired[str]
    toolCallId: NotRequired[str]
    name: NotRequired[str]
    args: NotRequired[dict[str, Any]]
    status: NotRequired[ToolStatus]
    summary: NotRequired[str]
    media: NotRequired[list[dict[str, Any]]]


class Envelope(TypedDict):
    """The members that all events share."""

    id: NotRequired[str]
    requestId: str
    timestamp: str


class Block(Envelope):
    """The members of an event that is a stage of a block. A start has blockIndex, a delta has deltaIndex and delta."""

    messageId: NotRequired[str]
    blockId: str
    stage: EventStage
    blockIndex: NotRequired[int]
    deltaIndex: NotRequired[int]
    discarded: NotRequired[bool]
    reason: NotRequired[str]
    delta: NotRequired[str]


class MetadataEvent(Envelope):
    event: Literal["metadata"]
    threadId: str
    agentId: str
    protocolVersion: NotRequired[str]
    provider: NotRequired[str]
    model: NotRequired[str]


class TextEvent(Block):
    event: Literal["text"]
    text: NotRequired[str]
    signature: NotRequired[str]


class ThinkingEvent(Block):
    event: Literal["thinking"]
    thinking: NotRequired[str]
    signature: NotRequired[str]


class ToolCallEvent(Block):
    event: Literal["tool_call"]
    toolCallId: str
    name: NotRequired[str]
    args: NotRequired[dict[str, Any]]
    gate: NotRequired[ContinuationKind]
    byAgent: NotRequired[bool]
    signature: NotRequired[str]
    description: NotRequired[str]
    schema: NotRequired[dict[str, Any]]


class ToolResultEvent(Block):
    event: Literal["tool_result"]
    toolCallId: str
    name: NotRequired[str]
    status: NotRequired[ToolStatus]
    summary: NotRequired[str]
    media: NotRequired[list[dict[str, Any]]]
    elapsedMs: NotRequired[int]


class DoneEvent(Envelope):
    event: Literal["done"]
    messageId: str
    threadId: str
    content: list[AssistantContentBlock]
    usage: Usage
    finishReason: FinishReason


class ErrorEvent(Envelope):
    event: Literal["error"]
    threadId: NotRequired[str]
    code: str
    message: str
    retryable: bool
    runningRequestId: NotRequired[str]
    usage: NotRequired[Usage]


class AbortedEvent(Envelope):
    event: Literal["aborted"]
    messageId: NotRequired[str]
    threadId: NotRequired[str]
    reason: NotRequired[str]
    content: NotRequired[list[AssistantContentBlock]]
    usage: NotRequired[Usage]


class ContinuationEvent(Envelope):
    event: Literal["continuation"]
    actionId: str
    kind: ContinuationKind
    payload: dict[str, Any]
    expiresAt: NotRequired[str]


class InputEvent(Envelope):
    event: Literal["input"]
    threadId: str
    agentId: str
    steerId: NotRequired[str]
    messages: list[dict[str, Any]]
    actionResults: NotRequired[list[ActionResult]]
    history: NotRequired[list[dict[str, Any]]]
    tools: NotRequired[list[RequestTool]]
    options: NotRequired[RequestOptions]
    system: NotRequired[str]
    context: NotRequired[dict[str, Any]]
    metadata: NotRequired[dict[str, Any]]


class ClaimEvent(Envelope):
    event: Literal["claim"]
    epoch: int
    runner: str
    build: NotRequired[str]
    released: NotRequired[bool]
    traceId: NotRequired[str]


class PlanEvent(Envelope):
    event: Literal["plan"]
    stage: EventStage
    steps: NotRequired[list[dict[str, Any]]]
    summary: NotRequired[str]
    toolCallId: NotRequired[str]


class NoticeEvent(Envelope):
    event: Literal["notice"]
    level: Literal["info", "warning", "error"]
    message: str
    details: NotRequired[Any]


class FinalAnswerEvent(Block):
    event: Literal["final_answer"]
    content: NotRequired[str]
    title: NotRequired[str]
    format: NotRequired[str]
    kind: NotRequired[str]


class UsageEvent(Envelope, Usage):
    event: Literal["usage"]
    turns: int
    finishReason: NotRequired[FinishReason]
    model: NotRequired[str]
    ttftMs: NotRequired[int]
    elapsedMs: NotRequired[int]


class CustomEvent(Envelope):
    event: Literal["custom"]
    type: str
    data: NotRequired[Any]
    toolCallId: NotRequired[str]


class ContextCompressedEvent(Envelope):
    event: Literal["context_compressed"]
    originalLength: int
    compressedLength: int
    compressionRatio: float
    strategy: str


class SubagentEvent(Envelope):
    event: Literal["subagent"]
    toolCallId: str
    agentId: str
    inner: dict[str, Any]


class ToolOutputEvent(Envelope):
    event: Literal["tool_output"]
    toolCallId: str
    status: ToolStatus
    content: NotRequired[str]
    ref: NotRequired[dict[str, Any]]
    media: NotRequired[list[dict[str, Any]]]


AgentEvent = (
    MetadataEvent
    | TextEvent
    | ThinkingEvent
    | ToolCallEvent
    | ToolResultEvent
    | DoneEvent
    | ErrorEvent
    | AbortedEvent
    | ContinuationEvent
    | InputEvent
    | ClaimEvent
    | PlanEvent
    | NoticeEvent
    | FinalAnswerEvent
    | UsageEvent
    | CustomEvent
    | ContextCompressedEvent
    | SubagentEvent
    | ToolOutputEvent
)
